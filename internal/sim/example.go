package sim

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxExample is how many values an example may have, and optionalDepth how deep
// it is filled in with what may be missing: schemas can refer to themselves.
const (
	maxExample    = 1000
	optionalDepth = 4
)

// example makes a value that satisfies the common schemas, so that a rehearsal
// of lines that ask for JSON succeeds. Its texts are the echo.
type example struct {
	root any
	text string
	left int
}

// exampleOf returns an example of a schema as JSON; false: there is no schema.
func exampleOf(schema json.RawMessage, text string) ([]byte, bool) {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil || len(root) == 0 {
		return nil, false
	}
	e := example{root: root, text: text, left: maxExample}
	b, err := json.Marshal(e.of(root, 0))
	return b, err == nil
}

// of is an example of a schema that stands depth levels within the answer.
func (e *example) of(schema any, depth int) any {
	s, _ := schema.(map[string]any)
	e.left--
	if e.left < 0 {
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[0]
	}
	if ref, ok := s["$ref"].(string); ok {
		return e.of(e.lookUp(ref), depth)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := s[key].([]any); ok && len(list) > 0 {
			return e.of(list[0], depth)
		}
	}
	switch typeOf(s) {
	case "object":
		return e.object(s, depth)
	case "array":
		return e.array(s, depth)
	case "number", "integer":
		return number(s)
	case "boolean":
		return true
	case "null":
		return nil
	}
	return e.string(s)
}

// typeOf is the type that a schema asks for, or what its keywords are about.
func typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	switch {
	case s["properties"] != nil, s["required"] != nil:
		return "object"
	case s["items"] != nil:
		return "array"
	}
	return "string"
}

// object has what must be there, and near the top what may be.
func (e *example) object(s map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if name, ok := name.(string); ok {
			out[name] = e.of(properties[name], depth+1)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if _, there := out[name]; !there && depth < optionalDepth {
			out[name] = e.of(properties[name], depth+1)
		}
	}
	return out
}

// array has one item, or as many as there must be.
func (e *example) array(s map[string]any, depth int) any {
	n := max(bound(s, "minItems", 0), min(1, bound(s, "maxItems", 1)))
	if depth >= optionalDepth {
		n = bound(s, "minItems", 0)
	}
	out := []any{}
	for range int(min(n, maxExample)) {
		out = append(out, e.of(s["items"], depth+1))
	}
	return out
}

// string is the echo, within the schema's lengths.
func (e *example) string(s map[string]any) any {
	text := cutAt(int(min(bound(s, "maxLength", maxEcho), maxEcho)), e.text)
	if short := int(min(bound(s, "minLength", 0), maxEcho)) - utf8.RuneCountInString(text); short > 0 {
		text += strings.Repeat(".", short)
	}
	return text
}

// number is 1, or the whole number nearest to it within the schema's limits.
func number(s map[string]any) any {
	low := max(bound(s, "minimum", math.Inf(-1)), bound(s, "exclusiveMinimum", math.Inf(-1))+1)
	high := min(bound(s, "maximum", math.Inf(1)), bound(s, "exclusiveMaximum", math.Inf(1))-1)
	return math.Floor(min(max(1, math.Ceil(low)), high))
}

// bound is a number of a schema, or a default.
func bound(s map[string]any, key string, otherwise float64) float64 {
	if v, ok := s[key].(float64); ok {
		return v
	}
	return otherwise
}

// lookUp finds what a reference within the schema points to; nil: nothing.
func (e *example) lookUp(ref string) any {
	at := e.root
	for token := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if token == "" {
			continue
		}
		m, _ := at.(map[string]any)
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return at
}
