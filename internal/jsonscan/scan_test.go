package jsonscan

import (
	"encoding/json"
	"testing"
)

func TestPlaces(t *testing.T) {
	for _, value := range []string{
		`""`, `"a"`, `"\""`, `"\\"`, `"\\\""`, `"{[\"]}"`, `0`, `-1.5e+3`, `true`, `null`, `[]`, `{}`,
		`{"a":{"b":["]",{"c":"}"}]},"d":"\\"}`, `[1 , [2],"[" ]`,
	} {
		for _, after := range []string{"", " ", ",", "]", "}", "\r\n", " :"} {
			text := []byte(" \t" + value + after)
			begin := Space(text, 0)
			if begin != 2 {
				t.Errorf("%q: the space ends at %d", text, begin)
			}
			if end := Value(text, begin); string(text[begin:end]) != value {
				t.Errorf("%q: value %q", text, text[begin:end])
			}
			if value[0] == '"' {
				if end := String(text, begin); end != begin+len(value)-1 {
					t.Errorf("%q: the closing quote is at %d", text, end)
				}
			}
		}
	}
}

func FuzzPlaces(f *testing.F) {
	for _, s := range []string{`{"a":[1,"\\\""]}`, `"`, `"\`, `[[[`, `}`, ``, ` "a" `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i := Space(b, 0)
		end := Value(b, i)
		if i > len(b) || end < i || end > len(b) {
			t.Fatalf("%q: from %d to %d", b, i, end)
		}
		if json.Valid(b) && (end == i || Space(b, end) != len(b)) {
			t.Errorf("%q: the value ends at %d", b, end)
		}
	})
}
