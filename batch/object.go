package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// field is one member of a JSON object, its value as it stands in the text.
type field struct {
	name  string
	value []byte
}

// fields returns the members of a JSON object in their order. obj must be valid
// JSON and UTF-8; a second member of the same name is an error, because readers differ on
// which of them counts.
func fields(obj []byte) ([]field, error) {
	var out []field
	seen := map[string]bool{}
	i := skipSpace(obj, 0) + 1 // the brace
	for {
		i = skipSpace(obj, i)
		if obj[i] == '}' {
			return out, nil
		}
		if obj[i] == ',' {
			i = skipSpace(obj, i+1)
		}
		end := skipValue(obj, i)
		name, err := unquote(obj[i:end])
		if err != nil {
			return nil, fmt.Errorf("read a field's name: %w", err)
		}
		i = skipSpace(obj, skipSpace(obj, end)+1) // the colon
		end = skipValue(obj, i)
		if seen[name] {
			return nil, &fieldError{name, "it stands there twice"}
		}
		seen[name] = true
		out = append(out, field{name, obj[i:end]})
		i = end
	}
}

// fieldError is what is wrong with a field; the place is added by the reader.
type fieldError struct{ name, msg string }

func (e *fieldError) Error() string { return e.name + ": " + e.msg }

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the place behind the value that starts at i; the text must
// be valid JSON.
func skipValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or a literal
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// skipString returns the place of the closing quote of the string at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i
}

// unquote returns the text of a JSON string, which must be valid UTF-8.
func unquote(v []byte) (string, error) {
	if !bytes.ContainsRune(v, '\\') {
		return string(v[1 : len(v)-1]), nil
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
