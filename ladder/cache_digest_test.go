package ladder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// value is a JSON value that can be spelt in many ways.
type value struct {
	literal string // a number as it is written, true, false or null
	text    *string
	list    []value
	object  []member
	kind    string
}

type member struct {
	name  string
	value value
}

func genValue(depth int) *rapid.Generator[value] {
	return rapid.Custom(func(t *rapid.T) value {
		kinds := []string{"literal", "text", "list", "object"}
		if depth == 0 {
			kinds = kinds[:2]
		}
		v := value{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch v.kind {
		case "literal":
			v.literal = rapid.SampledFrom([]string{"0", "1", "1.0", "-1", "1e2", "100", "true", "false", "null"}).Draw(t, "literal")
		case "text":
			s := genText.Draw(t, "text")
			v.text = &s
		case "list":
			v.list = rapid.SliceOfN(genValue(depth-1), 0, 4).Draw(t, "list")
		default:
			for _, name := range rapid.SliceOfNDistinct(genText, 0, 4, rapid.ID[string]).Draw(t, "names") {
				v.object = append(v.object, member{name, genValue(depth-1).Draw(t, "value")})
			}
		}
		return v
	})
}

var genText = rapid.StringOfN(rapid.SampledFrom([]rune("ab1 \"\\/\n<é日😀")), 0, 4, -1)

// spell writes a value in one of its spellings.
func (v value) spell(t *rapid.T) string {
	var s string
	switch v.kind {
	case "literal":
		s = v.literal
	case "text":
		s = spellText(t, *v.text)
	case "list":
		var parts []string
		for _, x := range v.list {
			parts = append(parts, x.spell(t))
		}
		s = "[" + space(t) + strings.Join(parts, ",") + "]"
	default:
		var parts []string
		for _, m := range rapid.Permutation(v.object).Draw(t, "order") {
			parts = append(parts, space(t)+spellText(t, m.name)+space(t)+":"+m.value.spell(t))
		}
		s = "{" + strings.Join(parts, ",") + space(t) + "}"
	}
	return space(t) + s + space(t)
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n"}).Draw(t, "space")
}

// spellText escapes some of the characters that need not be.
func spellText(t *rapid.T, s string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '/' && rapid.Bool().Draw(t, "escaped"):
			out.WriteString(`\/`)
		case r > 0xffff:
			js, _ := json.Marshal(string(r))
			if rapid.Bool().Draw(t, "escaped") {
				r -= 0x10000
				js = fmt.Appendf(nil, `"\u%04x\u%04X"`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
			}
			out.Write(js[1 : len(js)-1])
		case r < ' ' || r == '"' || r == '\\' || rapid.Bool().Draw(t, "escaped"):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return `"` + out.String() + `"`
}

// change returns the value with something in it changed.
func (v value) change(t *rapid.T) value {
	switch v.kind {
	case "literal":
		v.literal = map[string]string{
			"0": "null", "1": "1.0", "1.0": "1", "-1": "1", "1e2": "100", "100": "1e2", "true": "false", "false": "true", "null": "0",
		}[v.literal]
	case "text":
		s := *v.text + "x"
		v.text = &s
	case "list":
		v.list = append([]value{}, v.list...)
		if i := rapid.IntRange(0, len(v.list)).Draw(t, "at"); i < len(v.list) {
			v.list[i] = v.list[i].change(t)
		} else {
			v.list = append(v.list, value{kind: "literal", literal: "null"})
		}
	default:
		v.object = append([]member{}, v.object...)
		switch i := rapid.IntRange(0, len(v.object)).Draw(t, "at"); {
		case i == len(v.object):
			v.object = append(v.object, member{"a new name", value{kind: "literal", literal: "null"}})
		case rapid.Bool().Draw(t, "rename"):
			v.object[i].name += " renamed"
		default:
			v.object[i].value = v.object[i].value.change(t)
		}
	}
	return v
}

// Every spelling of a value has its digest, and every other value another.
func TestDigest_IsOfWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(3).Draw(t, "value")
		first, err := digestJSON([]byte(v.spell(t)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := v.spell(t); first != mustDigest(t, text) {
			t.Fatalf("%s has another digest", text)
		}
		if text := v.change(t).spell(t); first == mustDigest(t, text) {
			t.Fatalf("%s has the same digest", text)
		}
	})
}

func mustDigest(t rapid.TB, text string) sum {
	d, err := digestJSON([]byte(text), nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

// Alike at first sight, these are not the same.
func TestDigest_TellsApart(t *testing.T) {
	seen := map[sum]string{}
	for _, body := range []string{
		`{}`, `{"a":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":{"b":1}}`, `{"a":true}`, `{"a":"true"}`, `{"a":null}`, `{"a":"null"}`,
		`{"a":[]}`, `{"a":{}}`, `{"a":[[],[]]}`, `{"a":[[[]]]}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[12]}`,
		`{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":2}`, `{"m":{"model":"x"}}`, `{"m":{}}`,
		"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}", `{"a":"\ufffd"}`, `{"a":"\ud800"}`, `{"a":"\ud801"}`, "{\"\xff\":1}", "{\"\xfe\":1}",
	} {
		d, err := digestBody([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", body, other)
		}
		seen[d] = body
	}
}

func TestDigest_OfWhatIsNoJSON(t *testing.T) {
	for _, body := range []string{``, `{`, `{} {}`, `{"a":}`, strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)} {
		if d, err := digestBody([]byte(body)); err == nil {
			t.Errorf("%.20q has the digest %x", body, d)
		}
	}
}

// FuzzDigest: no body panics, and one digest is never of two values.
func FuzzDigest(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"b":null}]}`), []byte(`{ "a" : [1,"\u0078",{"b":null}] }`))
	f.Add([]byte("{\"a\":\"\xff\"}"), []byte(`{"a":"\ud800"}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, errX := digestBody(a)
		y, errY := digestBody(b)
		if json.Valid(a) != (errX == nil) || json.Valid(b) != (errY == nil) {
			t.Fatalf("valid, but %v and %v", errX, errY)
		}
		if errX != nil || errY != nil || x != y {
			return
		}
		v, _ := decode(a)
		w, _ := decode(b)
		drop := func(v any) string {
			m, _ := v.(map[string]any)
			for _, name := range unasked {
				delete(m, name)
			}
			js, _ := json.Marshal(v)
			return string(js)
		}
		if drop(v) != drop(w) {
			t.Fatalf("%q and %q have one digest", a, b)
		}
	})
}
