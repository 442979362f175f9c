package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestValid_Levels(t *testing.T) {
	for text, levels := range map[string]int{
		`1`: 0, `[]`: 1, `{}`: 1, `[1,[2]]`: 2, `{"a":{"b":[]}}`: 3, `[[],[],[{}]]`: 3, `"[["`: 0,
	} {
		if !Valid([]byte(text), levels) || levels > 0 && Valid([]byte(text), levels-1) {
			t.Errorf("%s does not nest %d levels", text, levels)
		}
	}
}

// Wherever a byte stands in a string, of whatever length, it is seen.
func TestValid_EveryPlaceOfAString(t *testing.T) {
	for length := range 70 {
		for at := range length {
			for _, c := range []byte{0, '\n', 0x1f, ' ', '"', '\\', 0x7f, 0x80, 0xff} {
				text := []byte(`["` + strings.Repeat("é", length/2+1)[:length] + `"]`)
				text[2+at] = c
				if got, want := Valid(text, 1), json.Valid(text); got != want {
					t.Fatalf("%q: valid %v, want %v", text, got, want)
				}
			}
		}
	}
}

// FuzzValid holds the check to encoding/json.
func FuzzValid(f *testing.F) {
	for _, text := range []string{
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"a"}]}}`, `{"a":[1,-0.5e+3,true,false,null,"\u00e9\"\\"],"b":{}}`, "{\"a\":\"\x01\"}", `{"a":"\x"}`, `[01]`, `[1.]`, `[-]`, `[+1]`, `[1e]`, `[.5]`,
		`[nan]`, `[Infinity]`, `{"a":1,}`, `[1,]`, `{"a" 1}`, `{a:1}`, ` { } `, "\x00{}", "{}\x00", "[\"\x7f\"]", "{\"a\":\"\x01\\n\"}", "[\"\\n\x00\"]", "{\"\n\\n\":1}", "[1,\t2]", `"\ud800"`, `"\u12g4"`, `{"\n":1}`, "{\"\n\":1}", `tru`, "\v1", "\u00a01",
		"[\"" + strings.Repeat("a", 40) + "\\\"\\u00e9" + strings.Repeat("b", 40) + "\"]", `["\`, `["\"`, `["\u00e`, `["\u00e"]`, strings.Repeat("[", 9) + strings.Repeat("]", 9),
	} {
		f.Add([]byte(text))
	}
	const levels = 8
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Valid(b, levels), json.Valid(b) && depthOf(b) <= levels; got != want {
			t.Fatalf("%q: valid %v, want %v", b, got, want)
		}
	})
}

// depthOf is how deep a JSON text nests.
func depthOf(b []byte) int {
	depth, deepest := 0, 0
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
			deepest = max(deepest, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}
