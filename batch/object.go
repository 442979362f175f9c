package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"nightshift/internal/jsonscan"
	"nightshift/provider"
)

// field is one member of a JSON object, its value as it stands in the text.
type field struct {
	name  string
	value []byte
}

// aFewFields is room for the fields of most objects.
type aFewFields [fewFields]field

// fields appends the members of a JSON object to out, in their order. obj must be
// valid JSON and UTF-8; a second member of the same name is an error, because readers
// differ on which of them counts.
func fields(out []field, obj []byte) ([]field, error) {
	var seen names
	i := jsonscan.Space(obj, 0) + 1 // the brace
	for {
		i = jsonscan.Space(obj, i)
		if obj[i] == '}' {
			return out, nil
		}
		if obj[i] == ',' {
			i = jsonscan.Space(obj, i+1)
		}
		end := jsonscan.Value(obj, i)
		name, err := unquote(obj[i:end])
		if err != nil {
			return nil, fmt.Errorf("read a field's name: %w", err)
		}
		i = jsonscan.Space(obj, jsonscan.Space(obj, end)+1) // the colon
		end = jsonscan.Value(obj, i)
		if seen.has(out, name) {
			return nil, &fieldError{name, "it stands there twice"}
		}
		out = append(out, field{name, obj[i:end]})
		i = end
	}
}

// names are those of the fields so far, once there are many: few are looked
// through as they stand.
type names map[string]bool

const fewFields = 16

// has says whether a name stands among the fields before it.
func (s *names) has(fields []field, name string) bool {
	if len(fields) < fewFields {
		return slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
	}
	if *s == nil {
		*s = names{}
		for _, f := range fields {
			(*s)[f.name] = true
		}
	}
	twice := (*s)[name]
	(*s)[name] = true
	return twice
}

// fieldError is what is wrong with a field; the place is added by the reader.
type fieldError struct{ name, msg string }

func (e *fieldError) Error() string { return e.name + ": " + e.msg }

// textOf returns bytes as a text. Those that stand in every line are not copied.
func textOf(b []byte) string {
	switch string(b) {
	case "custom_id":
		return "custom_id"
	case "method":
		return "method"
	case "POST":
		return "POST"
	case "url":
		return "url"
	case provider.ChatCompletions:
		return provider.ChatCompletions
	case "body":
		return "body"
	case "model":
		return "model"
	case "messages":
		return "messages"
	case "id":
		return "id"
	case "prompt":
		return "prompt"
	case "system":
		return "system"
	case "max_tokens":
		return "max_tokens"
	case "temperature":
		return "temperature"
	}
	return string(b)
}

// unquote returns the text of a JSON string, which must be valid UTF-8.
func unquote(v []byte) (string, error) {
	if bytes.IndexByte(v, '\\') < 0 {
		return textOf(v[1 : len(v)-1]), nil
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err
}

// kindOf names a JSON value's type.
func kindOf(v []byte) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
