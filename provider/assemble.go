package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
)

// assembly puts the chunks of a streamed completion, of a chat or of a text,
// together into the body that a plain call would have brought:
//
//   - The fields of the completion and of a choice hold their last value that is
//     not empty; "object" is "chat.completion" or "text_completion". "obfuscation",
//     the padding of a stream, and a usage that is null are left out.
//   - In a delta strings are joined and lists appended, in a choice lists. A
//     role, and whatever is neither, holds its last value that is not empty.
//   - Tool calls are put together by their index, and lose it. Where servers
//     leave the index out or repeat it, a new ID with a name begins a new call;
//     without IDs, so does a name with arguments after arguments that are whole.
//   - Parts of a list of content, and of reasoning_details, are put together by
//     their index or with the part of the same type before them.
//   - The lists of logprobs are appended.
//   - Choices are in the order of their index. What a choice and its message
//     always have (role, content, refusal; logprobs, finish_reason) is null
//     where none came. Empty content beside tool calls or a refusal is null, as
//     in plain answers.
//
// Strings are joined as they stand between their quotes, escapes untouched, so
// that characters which were split between chunks come out whole.
//
// Only what is kept counts against the limit: a stream is many times as long as
// its answer.
type assembly struct {
	top     parts
	choices []*choiceParts

	texts bool  // the choices are texts, and not messages
	left  int64 // bytes that may still be kept
	spoke bool  // the chunk that is being added had a token
	err   error // the first, for good
}

// choiceParts is a choice that is under way.
type choiceParts struct {
	index    int
	finished bool
	fields   parts // without index, delta and logprobs
	logprobs parts
	message  parts // without the calls
	calls    []*callParts
	function parts // the older form of a call
}

// callParts is a tool call that is under way.
type callParts struct {
	index    int
	id       string
	fields   parts // without index and function
	function parts
}

const (
	// maxPieces bounds the choices of an answer, the tool calls of a choice, and
	// the fields of each. No API allows as many.
	maxPieces = 1024
	// pieceSize is about what each of them takes beside its text, in bytes.
	pieceSize = 128
)

var errTooMany = errors.New("the stream has more choices, tool calls or fields than an answer can have")

// add adds a chunk, a valid JSON object, and says whether there was a token in
// it: a piece of an answer, or the reason of its end.
func (a *assembly) add(chunk []byte) (token bool, err error) {
	a.spoke = false
	eachMember(chunk, func(key, value []byte) {
		switch string(key) {
		case "obfuscation", "object":
		case "choices":
			eachElement(value, a.addChoice)
		default:
			a.last(&a.top, key, value)
		}
	})
	return a.spoke, a.err
}

func (a *assembly) addChoice(raw []byte) {
	c := a.choice(max(0, indexOf(raw)))
	if c == nil {
		return
	}
	eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case "index":
		case "delta":
			a.addDelta(c, value)
		case "message":
			if len(c.message)+len(c.calls) == 0 { // in place of a delta; else it repeats them all
				a.addDelta(c, value)
			}
		case "text":
			a.spoke = a.spoke || a.texts && !isEmpty(value)
			a.join(&c.fields, key, value)
		case "logprobs":
			eachMember(value, func(key, value []byte) { a.join(&c.logprobs, key, value) })
		case "finish_reason":
			c.finished = c.finished || !isEmpty(value)
			a.spoke = a.spoke || !isEmpty(value)
			a.last(&c.fields, key, value)
		default:
			if value[0] == '[' {
				a.join(&c.fields, key, value)
			} else {
				a.last(&c.fields, key, value)
			}
		}
	})
}

// choice returns the choice of an index, new or known; nil after an error.
func (a *assembly) choice(index int) *choiceParts {
	for _, c := range a.choices {
		if c.index == index {
			return c
		}
	}
	if !a.keep(pieceSize, len(a.choices)) {
		return nil
	}
	c := &choiceParts{index: index}
	a.choices = append(a.choices, c)
	return c
}

func (a *assembly) addDelta(c *choiceParts, raw []byte) {
	eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case "role":
			a.last(&c.message, key, value)
		case "tool_calls":
			eachElement(value, func(call []byte) { a.addCall(c, call) })
		case "function_call":
			a.addFunction(&c.function, value)
		default:
			text := value[0] == '"' || value[0] == '['
			a.spoke = a.spoke || !isEmpty(value) && (text || string(key) == "audio")
			a.join(&c.message, key, value)
		}
	})
}

func (a *assembly) addCall(c *choiceParts, raw []byte) {
	var id, function []byte
	eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case "id":
			id, _ = inner(value)
		case "function":
			function = value
		}
	})
	call := a.call(c, indexOf(raw), string(id), function)
	if call == nil {
		return
	}
	eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case "index":
		case "function":
			a.addFunction(&call.function, value)
		default:
			a.last(&call.fields, key, value)
		}
	})
}

// call returns the tool call that a piece belongs to, new or known; nil after
// an error. An index below 0 is none.
func (a *assembly) call(c *choiceParts, index int, id string, function []byte) *callParts {
	named, argued := false, false
	eachMember(function, func(key, value []byte) {
		named = named || string(key) == "name" && !isEmpty(value)
		argued = argued || string(key) == "arguments" && !isEmpty(value)
	})
	for i := len(c.calls) - 1; i >= 0; i-- {
		known := c.calls[i]
		switch {
		case index >= 0 && known.index != index:
		case id != "" && known.id != "" && known.id != id && named: // another one, though its index says the same
		case index < 0 && id != "" && known.id != id:
		case id == "" && named && argued && known.isWhole():
		default:
			return known
		}
	}
	if !a.keep(pieceSize+len(id), len(c.calls)) {
		return nil
	}
	if index < 0 {
		index = len(c.calls)
	}
	call := &callParts{index: index, id: id}
	c.calls = append(c.calls, call)
	return call
}

// isWhole says that the arguments are an object, to which nothing can be added.
func (c *callParts) isWhole() bool {
	raw := c.function.raw("arguments")
	if !bytes.HasSuffix(raw, []byte("}")) {
		return false
	}
	var arguments string
	err := json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &arguments)
	return err == nil && json.Valid([]byte(arguments))
}

// addFunction adds a piece of a function's name and arguments. Some servers
// repeat the name with every piece.
func (a *assembly) addFunction(p *parts, raw []byte) {
	eachMember(raw, func(key, value []byte) {
		text, isText := inner(value)
		a.spoke = a.spoke || isText && len(text) > 0
		if string(key) == "name" && bytes.Equal(text, p.raw("name")) {
			return
		}
		a.join(p, key, value)
	})
}

// keep books n more bytes, and a further piece beside a number of others.
func (a *assembly) keep(n, others int) bool {
	a.left -= int64(n)
	switch {
	case a.err != nil:
	case a.left < 0:
		a.err = errTooLarge
	case others >= maxPieces:
		a.err = errTooMany
	}
	return a.err == nil
}

// complete says that every choice has ended, and that there are at least n.
func (a *assembly) complete(n int) bool {
	for _, c := range a.choices {
		if !c.finished {
			return false
		}
	}
	return len(a.choices) >= max(1, n)
}

// cutOff says that some choices ended and others did not.
func (a *assembly) cutOff() bool {
	ended := 0
	for _, c := range a.choices {
		if c.finished {
			ended++
		}
	}
	return ended > 0 && ended < len(a.choices)
}

func (a *assembly) usage() Usage { return parseUsage(a.top.raw("usage")) }

// indexOf returns the index of a choice or a tool call; -1: it has none.
func indexOf(raw []byte) int {
	index := -1
	eachMember(raw, func(key, value []byte) {
		if string(key) != "index" {
			return
		}
		if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
			index = n
		}
	})
	return index
}
