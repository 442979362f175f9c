package provider

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// body returns the completion as far as it has come.
func (a *assembly) body() json.RawMessage {
	first := []string{"id", "object", "created", "model", "choices", "usage"}
	w := newWriter()
	for _, key := range first {
		switch f := a.top.find([]byte(key)); {
		case key == "object":
			w.field(key, a.object())
		case key == "choices":
			a.writeChoices(w)
		case f != nil && !(key == "usage" && string(f.raw) == "null"):
			w.piece(f)
		}
	}
	w.rest(a.top, first...)
	return w.close()
}

func (a *assembly) object() []byte {
	if a.texts {
		return []byte(`"text_completion"`)
	}
	return []byte(`"chat.completion"`)
}

func (a *assembly) writeChoices(w *writer) {
	slices.SortStableFunc(a.choices, func(x, y *choiceParts) int { return cmp.Compare(x.index, y.index) })
	w.key("choices")
	w.out = append(w.out, '[')
	for i, c := range a.choices {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.open()
		w.field("index", strconv.AppendInt(nil, int64(c.index), 10))
		if a.texts {
			w.pieceOr(c.fields, "text", `""`)
		} else {
			w.key("message")
			c.writeMessage(w)
		}
		if len(c.logprobs) > 0 {
			w.key("logprobs")
			w.open()
			w.rest(c.logprobs)
			w.out = append(w.out, '}')
		} else {
			w.field("logprobs", []byte("null"))
		}
		w.pieceOr(c.fields, "finish_reason", "null")
		if a.texts {
			w.rest(c.fields, "finish_reason", "text")
		} else {
			w.rest(c.fields, "finish_reason")
		}
		w.out = append(w.out, '}')
	}
	w.out = append(w.out, ']')
}

func (c *choiceParts) writeMessage(w *writer) {
	w.open()
	w.pieceOr(c.message, "role", `"assistant"`)
	content, refusal := c.message.find([]byte("content")), c.message.find([]byte("refusal"))
	instead := len(c.calls)+len(c.function) > 0 || refusal != nil && refusal.form == text && len(refusal.raw) > 0
	switch {
	case content == nil, instead && len(content.raw) == 0:
		w.field("content", []byte("null"))
	default:
		w.piece(content)
	}
	w.pieceOr(c.message, "refusal", "null")
	w.rest(c.message, "role", "content", "refusal")
	if len(c.calls) > 0 {
		c.writeCalls(w)
	}
	if len(c.function) > 0 {
		w.key("function_call")
		w.function(c.function)
	}
	w.out = append(w.out, '}')
}

func (c *choiceParts) writeCalls(w *writer) {
	slices.SortStableFunc(c.calls, func(x, y *callParts) int { return cmp.Compare(x.index, y.index) })
	w.key("tool_calls")
	w.out = append(w.out, '[')
	for i, call := range c.calls {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.open()
		if f := call.fields.find([]byte("id")); f != nil {
			w.piece(f)
		}
		w.pieceOr(call.fields, "type", `"function"`)
		if len(call.function) > 0 {
			w.key("function")
			w.function(call.function)
		}
		w.rest(call.fields, "id", "type")
		w.out = append(w.out, '}')
	}
	w.out = append(w.out, ']')
}

// writer writes JSON objects.
type writer struct {
	out   []byte
	comma bool // before the next field
}

func newWriter() *writer {
	w := &writer{}
	w.open()
	return w
}

func (w *writer) open() { w.out, w.comma = append(w.out, '{'), false }

func (w *writer) close() []byte { return append(w.out, '}') }

func (w *writer) key(key string) {
	if w.comma {
		w.out = append(w.out, ',')
	}
	w.comma = true
	w.out = append(append(w.out, encodeString(key)...), ':')
}

func (w *writer) field(key string, value []byte) {
	w.key(key)
	w.out = append(w.out, value...)
}

func (w *writer) piece(f *piece) {
	w.key(f.key)
	w.out = f.append(w.out)
}

// pieceOr writes a field, or what stands for it where it did not come.
func (w *writer) pieceOr(p parts, key, otherwise string) {
	if f := p.find([]byte(key)); f != nil {
		w.piece(f)
		return
	}
	w.field(key, []byte(otherwise))
}

// rest writes all fields but those that are written elsewhere.
func (w *writer) rest(p parts, elsewhere ...string) {
	for _, f := range p {
		if !slices.Contains(elsewhere, f.key) {
			w.piece(f)
		}
	}
}

// function writes a function's name and arguments, which are a text even where
// there are none.
func (w *writer) function(p parts) {
	w.open()
	w.rest(p, "arguments")
	w.pieceOr(p, "arguments", `""`)
	w.out = append(w.out, '}')
	w.comma = true
}

// append writes the value.
func (f *piece) append(b []byte) []byte { return f.appendTo(b, 0) }

func (f *piece) appendTo(b []byte, depth int) []byte {
	switch f.form {
	case text:
		return append(append(append(b, '"'), f.raw...), '"')
	case list:
		in := f.raw
		if f.key == "content" || f.key == "reasoning_details" || f.key == "thinking" {
			in = mergeElements(in, depth)
		}
		return append(append(append(b, '['), in...), ']')
	default:
		return append(b, f.raw...)
	}
}

// maxMerges is how deep lists in lists are put together; Mistral has two levels.
const maxMerges = 4

// element is one of a list that came in pieces.
type element struct {
	raw    []byte // the piece, while it is the only one
	fields parts  // else
}

// mergeElements puts the elements of a list together: those with an index by
// it, and texts and thoughts with the one before.
func mergeElements(in []byte, depth int) []byte {
	if depth == maxMerges {
		return in
	}
	type name struct {
		index int
		kind  string
	}
	var all []*element
	named := map[name]*element{}
	before := name{}
	scratch := &assembly{left: math.MaxInt64} // it is all on the books
	eachElement(append(append([]byte{'['}, in...), ']'), func(raw []byte) {
		n := name{indexOf(raw), kindOf(raw)}
		e := named[n]
		if n.index < 0 && (n != before || n.kind != `"text"` && n.kind != `"thinking"`) {
			e = nil
		}
		before = n
		if e != nil {
			e.add(scratch, raw)
			return
		}
		e = &element{raw: raw}
		named[n], all = e, append(all, e)
	})
	if scratch.err != nil {
		return in
	}
	var out []byte
	for i, e := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = e.append(out, depth+1)
	}
	return out
}

func kindOf(raw []byte) (kind string) {
	eachMember(raw, func(key, value []byte) {
		if string(key) == "type" {
			kind = string(value)
		}
	})
	return kind
}

// add joins another piece to an element.
func (e *element) add(a *assembly, raw []byte) {
	pieces := [][]byte{raw}
	if e.fields == nil {
		pieces = [][]byte{e.raw, raw}
	}
	for _, p := range pieces {
		eachMember(p, func(key, value []byte) {
			switch string(key) {
			case "text", "summary", "data", "thinking":
				a.join(&e.fields, key, value)
			default:
				a.last(&e.fields, key, value)
			}
		})
	}
}

func (e *element) append(b []byte, depth int) []byte {
	if e.fields == nil {
		return append(b, e.raw...)
	}
	b = append(b, '{')
	for i, f := range e.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, encodeString(f.key)...), ':')
		b = f.appendTo(b, depth)
	}
	return append(b, '}')
}
