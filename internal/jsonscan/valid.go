package jsonscan

import (
	"bytes"
	"encoding/binary"
)

// Valid says whether a text is one JSON value, by the rules of encoding/json, that
// nests no deeper than so many levels. It is several times as fast, since it looks
// for the quotes and the escapes of a string and at eight bytes or more at a time.
// It does not look at UTF-8: like encoding/json it takes strings that are none.
func Valid(b []byte, levels int) bool {
	i := text{b, hasControl(b)}.valueAt(Space(b, 0), levels)
	return i > 0 && Space(b, i) == len(b)
}

// text is what is checked, and whether control characters stand in it.
type text struct {
	b        []byte
	controls bool
}

// bad is returned in place of a place behind what is not valid.
const bad = -1

// valueAt returns the place behind the value that begins at i.
func (t text) valueAt(i, levels int) int {
	if i >= len(t.b) {
		return bad
	}
	switch t.b[i] {
	case '"':
		return t.stringAt(i)
	case '{':
		return t.objectAt(i, levels-1)
	case '[':
		return t.arrayAt(i, levels-1)
	case 't':
		return t.wordAt(i, "true")
	case 'f':
		return t.wordAt(i, "false")
	case 'n':
		return t.wordAt(i, "null")
	}
	return t.numberAt(i)
}

func (t text) objectAt(i, levels int) int {
	if levels < 0 {
		return bad
	}
	i = Space(t.b, i+1)
	if i < len(t.b) && t.b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(t.b) || t.b[i] != '"' {
			return bad
		}
		if i = t.stringAt(i); i < 0 {
			return bad
		}
		if i = Space(t.b, i); i >= len(t.b) || t.b[i] != ':' {
			return bad
		}
		if i = t.valueAt(Space(t.b, i+1), levels); i < 0 {
			return bad
		}
		if i = Space(t.b, i); i >= len(t.b) {
			return bad
		}
		if t.b[i] == '}' {
			return i + 1
		}
		if t.b[i] != ',' {
			return bad
		}
		i = Space(t.b, i+1)
	}
}

func (t text) arrayAt(i, levels int) int {
	if levels < 0 {
		return bad
	}
	i = Space(t.b, i+1)
	if i < len(t.b) && t.b[i] == ']' {
		return i + 1
	}
	for {
		if i = t.valueAt(i, levels); i < 0 {
			return bad
		}
		if i = Space(t.b, i); i >= len(t.b) {
			return bad
		}
		if t.b[i] == ']' {
			return i + 1
		}
		if t.b[i] != ',' {
			return bad
		}
		i = Space(t.b, i+1)
	}
}

func (t text) wordAt(i int, word string) int {
	if end := i + len(word); end <= len(t.b) && string(t.b[i:end]) == word {
		return end
	}
	return bad
}

func (t text) numberAt(i int) int {
	if t.b[i] == '-' {
		i++
	}
	if i < len(t.b) && t.b[i] == '0' {
		i++
	} else if i = t.digitsAt(i); i < 0 {
		return bad
	}
	if i < len(t.b) && t.b[i] == '.' {
		if i = t.digitsAt(i + 1); i < 0 {
			return bad
		}
	}
	if i < len(t.b) && (t.b[i] == 'e' || t.b[i] == 'E') {
		if i++; i < len(t.b) && (t.b[i] == '+' || t.b[i] == '-') {
			i++
		}
		return t.digitsAt(i)
	}
	return i
}

// digitsAt returns the place behind the digits from i on, of which there must be one.
func (t text) digitsAt(i int) int {
	from := i
	for i < len(t.b) && t.b[i] >= '0' && t.b[i] <= '9' {
		i++
	}
	if i == from {
		return bad
	}
	return i
}

// stringAt returns the place behind the string that begins at i. Its end and its
// escapes are looked for, since processors have instructions for that, and what is
// between them only where there are control characters somewhere.
func (t text) stringAt(i int) int {
	end := t.quoteAt(i + 1)
	for i++; end > 0; {
		n := 0
		if t.b[i] != '\\' {
			n = bytes.IndexByte(t.b[i:end], '\\')
		}
		if n < 0 {
			n = end - i
		}
		if t.controls && hasControl(t.b[i:i+n]) {
			return bad
		}
		if i += n; i == end {
			return end + 1
		}
		if i = t.escapeAt(i) + 1; i <= 0 {
			return bad
		}
		if i > end { // the quote was escaped
			end = t.quoteAt(i)
		}
	}
	return bad
}

// quoteAt returns the place of the next quote.
func (t text) quoteAt(i int) int {
	if n := bytes.IndexByte(t.b[i:], '"'); n >= 0 {
		return i + n
	}
	return bad
}

// escapeAt returns the place of the last byte of the escape that begins at i.
func (t text) escapeAt(i int) int {
	if i++; i >= len(t.b) {
		return bad
	}
	switch t.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if i+4 >= len(t.b) {
			return bad
		}
		for _, c := range t.b[i+1 : i+5] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return bad
			}
		}
		return i + 4
	}
	return bad
}

// hasControl says whether a byte below a space stands in a text. It looks at eight
// bytes at a time: of each, the subtraction borrows where it is less than 0x20.
func hasControl(b []byte) bool {
	const spaces, highs = 0x2020202020202020, 0x8080808080808080
	for ; len(b) >= 32; b = b[32:] {
		v, w := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		x, y := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		if ((v-spaces)&^v|(w-spaces)&^w|(x-spaces)&^x|(y-spaces)&^y)&highs != 0 {
			return true
		}
	}
	for _, c := range b {
		if c < ' ' {
			return true
		}
	}
	return false
}
