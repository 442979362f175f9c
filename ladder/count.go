package ladder

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// This file counts the parts of a request where they stand in its body, which may
// be long: nothing of it is copied or decoded.

// count is what the tokens of a text are reckoned from.
type count struct {
	ascii, letters, signs int
}

func (c count) tokens() int { return (c.ascii+3)/4 + (c.letters+1)/2 + c.signs }

func (c *count) rune(r rune) {
	switch {
	case r < utf8.RuneSelf:
		c.ascii++
	case r < 0x1100: // up to here, alphabets; behind, hangul and the ideographs
		c.letters++
	default:
		c.signs++
	}
}

// text counts a text.
func (c *count) text(b []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		c.rune(r)
		b = b[n:]
	}
}

// quoted counts the text of a JSON string.
func (c *count) quoted(b []byte) {
	for b = b[1 : len(b)-1]; ; {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			c.text(b)
			return
		}
		c.text(b[:i])
		r, n := escaped(b[i:])
		c.rune(r)
		b = b[i+n:]
	}
}

// escaped is the character of an escape and how long that is; a surrogate without
// its other half is a character that nothing else stands for.
func escaped(b []byte) (rune, int) {
	if b[1] != 'u' {
		return rune(b[1]), 2 // all of them stand for ASCII
	}
	r := unit(b)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if both := utf16.DecodeRune(r, unit(b[6:])); both != utf8.RuneError {
		return both, 12
	}
	return utf8.RuneError, 6
}

// unit is the number of an escape \u; -1 where none stands there.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var n [2]byte
	if _, err := hex.Decode(n[:], b[2:6]); err != nil {
		return -1
	}
	return rune(n[0])<<8 | rune(n[1])
}

// rawTokens are those of a part as it stands.
type rawTokens int

// UnmarshalJSON counts.
func (n *rawTokens) UnmarshalJSON(b []byte) error {
	*n = rawTokens(tokens(b))
	return nil
}

// textTokens are those of a text; what is none has none.
type textTokens int

// UnmarshalJSON counts.
func (n *textTokens) UnmarshalJSON(b []byte) error {
	if *n = 0; b[0] == '"' {
		var c count
		c.quoted(b)
		*n = textTokens(c.tokens())
	}
	return nil
}

// contentTokens are those of a message's content: of a text, or of the texts among
// its parts, joined as [message.text] does.
type contentTokens int

// UnmarshalJSON counts.
func (n *contentTokens) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return (*textTokens)(n).UnmarshalJSON(b)
	}
	*n = 0
	var parts []struct {
		Text part `json:"text"`
	}
	if json.Unmarshal(b, &parts) != nil {
		return nil
	}
	var all count
	for _, p := range parts {
		if p.Text == (part{}) {
			continue
		}
		if all != (count{}) {
			all.ascii++ // the newline between them
		}
		all.ascii, all.letters, all.signs = all.ascii+p.Text.ascii, all.letters+p.Text.letters, all.signs+p.Text.signs
	}
	*n = contentTokens(all.tokens())
	return nil
}

// part is the text of a part.
type part struct{ count }

var errNoText = errors.New("it is no text")

// UnmarshalJSON counts; as with a string, null changes nothing.
func (p *part) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		*p = part{}
		p.quoted(b)
	case 'n':
	default:
		return errNoText
	}
	return nil
}

// messageTokens are those of a message.
type messageTokens int

// UnmarshalJSON counts; what does not fit counts nothing.
func (n *messageTokens) UnmarshalJSON(b []byte) error {
	var m struct {
		Content      contentTokens `json:"content"`
		ToolCalls    rawTokens     `json:"tool_calls"`
		FunctionCall rawTokens     `json:"function_call"`
	}
	_ = json.Unmarshal(b, &m)
	*n = perMessage + messageTokens(m.Content) + messageTokens(m.ToolCalls) + messageTokens(m.FunctionCall)
	return nil
}

// itemTokens are those of an item of a response's input.
type itemTokens int

// UnmarshalJSON counts; what does not fit counts nothing.
func (n *itemTokens) UnmarshalJSON(b []byte) error {
	var i struct {
		Arguments rawTokens `json:"arguments"`
		Output    rawTokens `json:"output"`
	}
	_ = json.Unmarshal(b, &i)
	var m messageTokens
	_ = m.UnmarshalJSON(b) // it never fails
	*n = itemTokens(m) + itemTokens(i.Arguments) + itemTokens(i.Output)
	return nil
}

// items are those of a response's input; a text, or none, is a message of the user.
type items []itemTokens

// UnmarshalJSON counts.
func (all *items) UnmarshalJSON(b []byte) error {
	switch *all = nil; b[0] {
	case '"', 'n':
		var text textTokens
		_ = text.UnmarshalJSON(b)
		*all = items{perMessage + itemTokens(text)}
	case '[':
		var list []itemTokens
		_ = json.Unmarshal(b, &list)
		*all = list
	}
	return nil
}

// inputs are the tokens of each prompt of a completion, or input of embeddings: of
// texts, or of lists of tokens.
type inputs []inputTokens

// UnmarshalJSON counts, as [inputsOf] parts them.
func (all *inputs) UnmarshalJSON(b []byte) error {
	var one inputTokens
	_ = one.UnmarshalJSON(b)
	*all = inputs{one}
	var list []inputTokens
	if one.ofTexts && json.Unmarshal(b, &list) == nil {
		*all = list
	}
	return nil
}

// inputTokens are those of one.
type inputTokens struct {
	n       int
	ofTexts bool // it is a list whose first element is a text or a list
}

// element is the first byte of one.
type element byte

// UnmarshalJSON notes it.
func (e *element) UnmarshalJSON(b []byte) error {
	*e = element(b[0])
	return nil
}

// UnmarshalJSON counts.
func (i *inputTokens) UnmarshalJSON(b []byte) error {
	*i = inputTokens{}
	var list []element
	if b[0] == '[' && json.Unmarshal(b, &list) == nil && len(list) > 0 {
		*i = inputTokens{len(list), list[0] == '"' || list[0] == '['}
		return nil
	}
	var text textTokens
	_ = text.UnmarshalJSON(b)
	i.n = int(text)
	return nil
}
