package sim_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"nightshift/internal/schema"
	"nightshift/internal/sim"
)

// ask sends a request that asks for JSON of a schema and returns the answer's text.
func (b *bundle) ask(format string) string {
	b.t.Helper()
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"hello"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}}}`, format)
	return b.send(b.t.Context(), body).completion(b.t).Choices[0].Message.Content
}

// A rehearsal of lines that ask for JSON of a schema gets such JSON.
func TestExamplesSatisfyTheirSchema(t *testing.T) {
	b := setup(t, sim.Script{})
	for _, text := range []string{
		`{"type":"object","required":["n","s"],"properties":{"n":{"type":"integer","minimum":5},"s":{"type":"string","maxLength":3},"o":{"type":["null","boolean"]}}}`,
		`{"type":"array","minItems":3,"items":{"enum":["a","b"]}}`,
		`{"items":{"type":"number","exclusiveMinimum":1,"maximum":2.5}}`,
		`{"anyOf":[{"const":{"a":[1,null]}},{"type":"string"}]}`,
		`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"required":["x"],"properties":{"x":{"type":"string","minLength":9}}}}}`,
		`{"type":"object","properties":{"value":{"type":"string"},"left":{"$ref":"#"},"right":{"$ref":"#"}},"additionalProperties":false}`,
		`{"type":"number","maximum":-7.5}`,
		`{"type":"string","maxLength":0}`,
		`{"type":"array","maxItems":0}`,
		`{"type":"null"}`,
		`{"oneOf":[{"type":"boolean"}]}`,
	} {
		s, err := schema.Compile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		answer := b.ask(text)
		if err := s.Check([]byte(answer)); err != nil {
			t.Errorf("%s: %s: %v", text, answer, err)
		}
	}
	if got := b.ask(`{"properties":{"echo":{"type":"string"}}}`); got != `{"echo":"hello"}` {
		t.Errorf("the echo is %s", got)
	}
}

// No schema makes the simulator work for long, or fall over.
func TestExamplesOfOddSchemas(t *testing.T) {
	b := setup(t, sim.Script{})
	for _, text := range []string{
		`{"$ref":"#"}`, `{"type":7,"enum":[],"required":[1],"properties":[],"items":3}`, `{"$ref":"#/none/at/all"}`,
		`{"type":"string","maxLength":-5,"minLength":1e300}`, `{"type":"array","minItems":1e300,"items":{"type":"array","minItems":1e9}}`,
		`{"type":"object","required":["a","b","c"],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"}}}`, `{}`, `true`, `null`,
	} {
		if got := b.ask(text); !json.Valid([]byte(got)) || len(got) > 100_000 {
			t.Errorf("%s: %.100s", text, got)
		}
	}
	if strings.Contains(b.ask(`{"type":"number","minimum":1e308}`), "Inf") {
		t.Error("no JSON")
	}
}
