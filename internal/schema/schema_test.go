package schema

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustCompile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile([]byte(text))
	if err != nil {
		t.Fatalf("compile %s: %v", text, err)
	}
	return s
}

const product = `{
	"type": "object", "required": ["name", "price"], "additionalProperties": false,
	"properties": {
		"name": {"type": "string", "minLength": 3, "pattern": "^[A-Z]"},
		"price": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000000},
		"tags": {"type": "array", "maxItems": 2, "items": {"enum": ["new", "old"]}},
		"ref": {"$ref": "#/$defs/id"}
	},
	"$defs": {"id": {"type": "integer", "multipleOf": 3}}
}`

func TestCheck(t *testing.T) {
	s := mustCompile(t, product)
	for _, tc := range []struct{ answer, where, text string }{
		{`{"name":"Lamp","price":1.5,"tags":["new"],"ref":9}`, "", ""},
		{` {"name":"Lamp","price":1e3} ` + "\n", "", ""},
		{`{"name":"Lamp","price":"1"}`, "#/properties/price/type", "at /price: got string, want number"},
		{`{"name":"La","price":1}`, "#/properties/name/minLength", "at /name: the text has 2 characters, want at least 3"},
		{`{"name":"lamp","price":1}`, "#/properties/name/pattern", "at /name: the text does not match the pattern ^[A-Z]"},
		{`{"name":"Lamp","price":0}`, "#/properties/price/exclusiveMinimum", "at /price: want more than 0"},
		{`{"name":"Lamp","price":1000000.1}`, "#/properties/price/maximum", "at /price: want at most 1000000"},
		{`{"name":"Lamp","price":1,"tags":["new","used"]}`, "#/properties/tags/items/enum", "at /tags/1: value must be one of 'new', 'old'"},
		{`{"name":"Lamp","price":1,"tags":["new","old","new"]}`, "#/properties/tags/maxItems", "at /tags: the list has 3 items, want at most 2"},
		{`{"name":"Lamp","price":1,"ref":10}`, "#/$defs/id/multipleOf", "at /ref: want a multiple of 3"},
		{`{"name":"Lamp"}`, "#/required", "at the top: missing property 'price'"},
		{`{"name":"Lamp","price":1,"colour":"red"}`, "#/additionalProperties", "at the top: additional properties 'colour' not allowed"},
		{`[1]`, "#/type", "at the top: got array, want object"},
		{`{"name":`, "#", "the answer is not JSON: unexpected EOF"},
		{`{} {}`, "#", "the answer is not JSON: invalid character after top-level value"},
		{`{"name":"Lamp","price":1e999999999}`, "#", "the answer cannot be checked: it holds a number too large or too long to compare"},
	} {
		err := s.Check([]byte(tc.answer))
		if tc.text == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.answer, err)
			}
			continue
		}
		var m *Mismatch
		if !errors.As(err, &m) || m.Where != tc.where || m.Text != tc.text {
			t.Errorf("%s: %#v, want %s: %s", tc.answer, err, tc.where, tc.text)
		}
	}
}

// The problems of an answer come in one order, a few of them, and alternatives
// as one.
func TestCheck_SeveralProblems(t *testing.T) {
	s := mustCompile(t, `{"items": {"type": "number"}, "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}`)
	for text, want := range map[string]string{
		`{"not": {}}`: "at the top: it is what the schema says it must not be", `{"properties": {"a": false}}`: "at /a: it must not be there",
	} {
		var m *Mismatch
		if err := mustCompile(t, text).Check([]byte(`{"a":1}`)); !errors.As(err, &m) || m.Text != want {
			t.Errorf("%s: %#v", text, err)
		}
	}
	var m *Mismatch
	if err := s.Check([]byte(`["a","b","c","d","e","f","g"]`)); !errors.As(err, &m) {
		t.Fatal(err)
	}
	want := "at /0: got string, want number\nat /1: got string, want number\nat /2: got string, want number\n" +
		"at /3: got string, want number\nat /4: got string, want number\nand 2 more"
	if m.Text != want {
		t.Errorf("got %q", m.Text)
	}
	if err := s.Check([]byte(`{"a":1}`)); !errors.As(err, &m) {
		t.Fatal(err)
	}
	want = "at /a: none of the alternatives fits (at /a: got number, want string; at /a: got number, want null)"
	if m.Text != want || m.Where != "#/properties/a/anyOf" {
		t.Errorf("got %q at %s", m.Text, m.Where)
	}
}

// What is told to logs quotes nothing of the answer, and what is told to the
// model is short whatever the answer.
func TestMismatch_IsShortAndKeepsTheAnswer(t *testing.T) {
	s := mustCompile(t, product)
	long := strings.Repeat("Ä secret ", 100_000)
	var m *Mismatch
	err := s.Check([]byte(`{"name":"` + strings.ToLower(long) + `","price":1,"` + long + `":1}`))
	if !errors.As(err, &m) {
		t.Fatal(err)
	}
	if len(m.Text) > maxText+4 || len(m.Where) > maxProblem+4 || strings.Contains(err.Error(), "secret") {
		t.Errorf("%q, %q", err, m.Text)
	}
}

func TestCompile_Refuses(t *testing.T) {
	deep := strings.Repeat(`{"items":`, maxDepth+1) + `{}` + strings.Repeat("}", maxDepth+1)
	for _, tc := range []struct{ schema, why string }{
		{``, "not JSON"},
		{`{"type":`, "not JSON"},
		{`true`, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{`{"type": "text"}`, "at /type: none of the alternatives fits"},
		{`{"properties": {"a": {"minLength": -1}}}`, "at /properties/a/minLength: want at least 0"},
		{`{"required": "a"}`, "at /required: got string, want array"},
		{`{"pattern": "(?=a)"}`, "at /pattern: the text is not a valid regex: error parsing regexp"},
		{`{"pattern": "(.{1,900}){1}(.{1,900}){1}(.{1,900}){1}(.{1,900}){1}(.{1,900}){1}(.{1,900}){1}"}`, "too large"},
		{`{"pattern": "` + strings.Repeat("(a?){1,30}", 300) + `"}`, "too large"},
		{`{"allOf": [` + strings.Repeat(`{},`, maxParts) + `{}]}`, "more than 5000 parts"},
		{`{"allOf": [` + strings.Repeat(`true,`, maxParts) + `true]}`, "more than 5000 parts"},
		{`{"$ref": "other.json"}`, "a schema may refer to its own parts only"},
		{`{"$ref": "file:///etc/passwd"}`, "a schema may refer to its own parts only"},
		{`{"$ref": "http://127.0.0.1:1/x.json"}`, "a schema may refer to its own parts only"},
		{`{"$schema": "http://127.0.0.1:1/x.json"}`, "a schema may refer to its own parts only"},
		{`{"$ref": "#/$defs/none"}`, "not found"},
		{`{"$dynamicRef": "#a", "$defs": {"x": {"$dynamicAnchor": "a"}}}`, "not supported"},
		{`{"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}`, "not supported"},
		{`{"minimum": 1e999999999}`, "too large or too long"},
		{deep, "nested deeper"},
		{`{"title": "` + strings.Repeat("a", MaxText) + `"}`, "longer than 128 KiB"},
	} {
		_, err := Compile([]byte(tc.schema))
		if err == nil || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%.80s: %v, want %q", tc.schema, err, tc.why)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), location)) {
			t.Errorf("%.80s: %q", tc.schema, err)
		}
	}
}

func TestCompile_Drafts(t *testing.T) {
	for schema, takes := range map[string]bool{
		`{"prefixItems": [{"type": "string"}]}`:                                                                     false, // 2020-12
		`{"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "string"}]}`:               true,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}`:                     false,
		`{"$schema": "http://json-schema.org/draft-04/schema#", "items": {"minimum": 1, "exclusiveMinimum": true}}`: false,
		`{"$id": "https://a.example/s.json", "$ref": "s.json#/$defs/x", "$defs": {"x": {"type": "string"}}}`:        false,
		`{"items": {"format": "date"}}`: true,
		`{"$ref": "#item", "$defs": {"x": {"$anchor": "item", "items": {"type": "string"}}}}`: false,
	} {
		if err := mustCompile(t, schema).Check([]byte(`[1]`)); (err == nil) != takes {
			t.Errorf("%s: %v", schema, err)
		}
	}
	dated := mustCompile(t, `{"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}`)
	if dated.Check([]byte(`"2026-02-31"`)) == nil || dated.Check([]byte(`"2026-02-28"`)) != nil {
		t.Error("draft 7 checks formats")
	}
}

// Numbers are compared as they are written.
func TestCheck_NumbersExactly(t *testing.T) {
	s := mustCompile(t, `{"const": 9007199254740993}`)
	if s.Check([]byte(`9007199254740993`)) != nil || s.Check([]byte(`9007199254740992`)) == nil {
		t.Error("a number lost its last digit")
	}
}

// Each of these would take longer than the night without a budget, in every
// place from which the library branches.
func TestCheck_IsBounded(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat("}", 60)
	abc := strings.Repeat(`{"c":1,"b":1,"a":`, 60) + `1` + strings.Repeat("}", 60)
	list := strings.Repeat(`[`, 60) + `1` + strings.Repeat("]", 60)
	for name, tc := range map[string]struct{ schema, answer string }{
		"anyOf":         {`{"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "type": "object"}`, nested},
		"allOf":         {`{"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}`, nested},
		"oneOf":         {`{"properties": {"a": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}}}`, nested},
		"patterns":      {`{"patternProperties": {"a": {"$ref": "#"}, "^a": {"$ref": "#"}, "a$": {"$ref": "#"}}}`, nested},
		"under not":     {`{"not": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "object", "patternProperties": {"a": {"$ref": "#/$defs/x"}, "^a": {"$ref": "#/$defs/x"}}}}}`, nested},
		"dependent":     {`{"not": {"$ref": "#/$defs/x"}, "$defs": {"p": {"properties": {"a": {"$ref": "#/$defs/x"}}}, "x": {"type": "object", "dependentSchemas": {"a": {"$ref": "#/$defs/p"}, "b": {"$ref": "#/$defs/p"}, "c": {"$ref": "#/$defs/p"}}}}}`, abc},
		"contains":      {`{"not": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}, "contains": {"$ref": "#/$defs/x"}}}}`, list},
		"if":            {`{"if": {"properties": {"a": {"$ref": "#"}}}, "then": {"properties": {"a": {"$ref": "#"}}}, "else": {"properties": {"a": {"$ref": "#"}}}}`, nested},
		"large pattern": {`{"items": {"pattern": "(.{1,900}){1}b(.{1,900}){1}b"}}`, `["` + strings.Repeat("a", maxValue-10) + `"]`},
		"large enum":    {`{"items": {"enum": [` + strings.Repeat("1e3,", 9999) + `0]}}`, `[` + strings.Repeat("1,", 10_000) + `1]`},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustCompile(t, tc.schema)
			started := time.Now()
			err := s.Check([]byte(tc.answer))
			if took := time.Since(started); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if err == nil || !strings.Contains(err.(*Mismatch).Text, "too many steps") {
				t.Errorf("it was checked to the end: %v", err)
			}
		})
	}
}

// A budget is for one check, and an answer of real size does not come near it.
func TestCheck_BudgetLeavesRealAnswersAlone(t *testing.T) {
	s := mustCompile(t, `{"type": "array", "items": `+strings.Replace(product, "#/$defs", "#/items/$defs", 1)+`}`)
	answer := "[" + strings.Repeat(`{"name":"Lamp","price":1.5,"tags":["new","old"],"ref":9},`, 20_000) + `{"name":"L","price":0}]`
	for range 3 {
		var m *Mismatch
		if err := s.Check([]byte(answer)); !errors.As(err, &m) || !strings.HasPrefix(m.Text, "at /20000/name") {
			t.Fatal(err)
		}
	}
	if err := s.Check([]byte(`[]`)); err != nil {
		t.Error(err)
	}
}

// A chain of references as long as a schema may be, at every level of an answer
// as deep as one may be, fits the stack.
func TestCheck_LongChainsFitTheStack(t *testing.T) {
	const n = 3900
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"%d":{"items":{"$ref":"#"}}}}`, n)
	s := mustCompile(t, b.String())
	answer := strings.Repeat("[", maxDepth) + strings.Repeat("1,", 10_000) + "1" + strings.Repeat("]", maxDepth)
	if err := s.Check([]byte(answer)); err == nil {
		t.Error("the budget was not spent")
	}
}

func TestCheck_AtTheSameTime(t *testing.T) {
	s := mustCompile(t, product)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if s.Check([]byte(`{"name":"Lamp","price":1}`)) != nil || s.Check([]byte(`{"name":"Lamp","price":0}`)) == nil {
					t.Error("wrong")
				}
			}
		})
	}
	wg.Wait()
}

func TestCache(t *testing.T) {
	c := NewCache()
	a, err := c.Compile([]byte(product))
	b, err2 := c.Compile([]byte(product))
	if a != b || err != nil || err2 != nil {
		t.Error("compiled twice")
	}
	if _, err := c.Compile([]byte(`{"type": 1}`)); err == nil {
		t.Error("it compiles")
	}
	for i := range 40 {
		if _, err := c.Compile(fmt.Appendf(nil, `{"title": "%d%s"}`, i, strings.Repeat("x", 100<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if c.text > cacheText || len(c.byKey) != c.used.Len() || len(c.byKey) > 11 {
		t.Errorf("it keeps %d bytes, %d and %d entries", c.text, len(c.byKey), c.used.Len())
	}
	if b, _ := c.Compile([]byte(product)); a == b {
		t.Error("the oldest is still there")
	}
	_, _ = c.Compile([]byte(strings.Repeat("x", MaxText+1)))
	if c.text > cacheText {
		t.Error("a text that is too long is kept")
	}
}

// An answer that says what an enum says is in it, and no other.
func TestProperty_Enum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,5}`), 1, 9, rapid.ID[string]).Draw(rt, "words")
		s := mustCompile(t, `{"enum": ["`+strings.Join(words, `","`)+`"]}`)
		word := rapid.StringMatching(`[a-z]{1,5}`).Draw(rt, "word")
		in := false
		for _, w := range words {
			in = in || w == word
		}
		if (s.Check([]byte(`"`+word+`"`)) == nil) != in {
			rt.Fatalf("%q in %q", word, words)
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add(product, `{"name":"Lamp","price":1}`)
	f.Add(`{"anyOf": [{"$ref": "#"}, {"not": {}}]}`, `[[[1e5]]]`)
	f.Add(`{"$schema": "http://json-schema.org/draft-04/schema#", "dependencies": {"a": ["b"], "c": {}}}`, `{"a":1,"c":null}`)
	f.Add(`{"unevaluatedProperties": false, "if": {"required": ["a"]}, "then": {"properties": {"a": true}}}`, `{"a":"\u0000"}`)
	f.Add(`{"uniqueItems": true, "contains": {"multipleOf": 0.1}, "propertyNames": {"pattern": "^.{3}"}}`, `[0.1,0.10,1e-1]`)
	f.Fuzz(func(t *testing.T, text, answer string) {
		started := time.Now()
		s, err := Compile([]byte(text))
		if err != nil {
			return
		}
		var m *Mismatch
		if err := s.Check([]byte(answer)); err != nil && (!errors.As(err, &m) || m.Text == "" || m.Where == "") {
			t.Fatalf("%#v", err)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Fatalf("%q with %q took %s", text, answer, took)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	s := mustCompile(b, product)
	answer := []byte(`{"name":"Lamp","price":1.5,"tags":["new"],"ref":9}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(answer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, product)
	}
}

func TestCompile_ACircleIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`,
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`,
	} {
		if _, err := Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), "refers to itself") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		`{"type":"object","properties":{"child":{"$ref":"#"}}}`, `{"anyOf":[{"type":"null"},{"$ref":"#/$defs/l"}],"$defs":{"l":{"type":"array","items":{"$ref":"#"}}}}`,
		`{"type":"string","minLength":5}`, `{"not":{}}`,
	} {
		if _, err := Compile([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
