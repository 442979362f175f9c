package provider

import (
	"encoding/json"

	"nightshift/internal/jsonscan"
)

// eachMember calls f for the members of a valid JSON object, in order; of
// anything else for none. The slices are parts of b.
func eachMember(b []byte, f func(key, value []byte)) {
	i := jsonscan.Space(b, 0)
	if i == len(b) || b[i] != '{' {
		return
	}
	for i = jsonscan.Space(b, i+1); b[i] != '}'; i = jsonscan.Space(b, i) {
		if b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
		over := jsonscan.Value(b, i)
		value := jsonscan.Space(b, jsonscan.Space(b, over)+1)
		end := jsonscan.Value(b, value)
		f(plainKey(b[i:over]), b[value:end])
		i = end
	}
}

// eachElement calls f for the elements of a valid JSON array, likewise.
func eachElement(b []byte, f func(value []byte)) {
	i := jsonscan.Space(b, 0)
	if i == len(b) || b[i] != '[' {
		return
	}
	for i = jsonscan.Space(b, i+1); b[i] != ']'; i = jsonscan.Space(b, i) {
		if b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
		end := jsonscan.Value(b, i)
		f(b[i:end])
		i = end
	}
}

// plainKey returns the text of a key.
func plainKey(quoted []byte) []byte {
	for _, c := range quoted {
		if c == '\\' {
			var key string
			_ = json.Unmarshal(quoted, &key) // it is valid
			return []byte(key)
		}
	}
	return quoted[1 : len(quoted)-1]
}

// inner returns what stands between the quotes of a JSON string, escapes as
// they are, and whether b is one. Two of them joined are the inside of a string
// again, even where a character was split between them.
func inner(b []byte) ([]byte, bool) {
	if len(b) < 2 || b[0] != '"' {
		return nil, false
	}
	return b[1 : len(b)-1], true
}
