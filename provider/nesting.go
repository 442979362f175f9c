package provider

import "nightshift/internal/jsonscan"

// MaxNesting is how deep the JSON of a request or an answer may nest. Both stand
// inside of results, a few levels deeper, and the readers of those stop
// somewhere, encoding/json at 10,000.
const MaxNesting = 1000

// TooDeep says that a text nests deeper than [MaxNesting]. It need not be valid JSON.
func TooDeep(b []byte) bool {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = jsonscan.String(b, i)
		case '{', '[':
			if depth++; depth > MaxNesting {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
