package provider

import (
	"encoding/json"
	"errors"
	"io"
)

// messageAssembly puts the events of a streamed message together into the body
// that a plain call would have brought, as far as readMessage looks at it.
type messageAssembly struct {
	message messageParts
	blocks  []*blockParts
	left    int64 // bytes that may still be kept
	ended   bool  // message_stop came
}

// messageParts are the fields of a message that do not come in pieces.
type messageParts struct {
	ID          scalar          `json:"id"`
	Type        string          `json:"type"`
	Role        string          `json:"role"`
	Model       scalar          `json:"model"`
	Content     []blockParts    `json:"content"`
	StopReason  scalar          `json:"stop_reason"`
	StopDetails json.RawMessage `json:"stop_details,omitempty"`
	Usage       messageUsage    `json:"usage"`
}

// blockParts is a content block that is under way.
type blockParts struct {
	Type     scalar          `json:"type"`
	Text     pieces          `json:"text,omitempty"`
	Thinking pieces          `json:"thinking,omitempty"`
	ID       scalar          `json:"id,omitempty"`
	Name     scalar          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`

	index int
	input pieces // JSON in pieces
}

// pieces is a text that grows. Its bytes are those of whole characters.
type pieces []byte

// MarshalText implements encoding.TextMarshaler.
func (p pieces) MarshalText() ([]byte, error) { return p, nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *pieces) UnmarshalText(b []byte) error { *p = append((*p)[:0], b...); return nil }

// messageEvent is every event of a stream.
type messageEvent struct {
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
	Index   int             `json:"index"`
	Block   json.RawMessage `json:"content_block"`
	Delta   struct {
		Text        string          `json:"text"`
		Thinking    string          `json:"thinking"`
		PartialJSON string          `json:"partial_json"`
		StopReason  scalar          `json:"stop_reason"`
		StopDetails json.RawMessage `json:"stop_details"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// readMessageEvents puts a stream together up to message_stop. A stream that
// ends, breaks, falls silent or tells of an error before it is whole where the
// reason of the message's end had come, since nothing of it comes later.
func (x *exchange) readMessageEvents(s *events) (reading, error) {
	a := &messageAssembly{left: x.maxBody}
	tokens := false
	for !a.ended {
		e, err := s.next()
		if a.message.StopReason != "" && (err != nil || !e.object || e.isError()) {
			break // too late to take back what was bought
		}
		switch {
		case errors.Is(err, io.EOF), err == nil && e.done():
			return reading{body: a.body(), usage: a.usage(), why: "the stream broke off before its end"}, nil
		case err != nil:
			return reading{usage: a.usage()}, err
		case e.isError():
			return reading{refusal: e.data, usage: a.usage()}, nil
		}
		token, err := a.add(e)
		switch {
		case errors.Is(err, errTooLarge), errors.Is(err, errTooMany):
			return reading{usage: a.usage()}, err
		case err != nil && a.message.StopReason == "":
			return reading{body: kept(e.data), usage: a.usage(), why: "the stream holds an event that cannot be read"}, nil
		}
		if token {
			tokens = true
			x.watch.token()
		}
	}
	return reading{body: a.body(), tokens: tokens}, nil
}

// isError says that an event holds an error in place of the rest. Proxies send
// it without its type, or its name.
func (e event) isError() bool {
	failed := e.name == "error"
	eachMember(e.objectData(), func(key, value []byte) {
		failed = failed || string(key) == "error" && !isEmpty(value)
	})
	return failed
}

// add adds an event and says whether there was a token in it. Events that it
// does not know, pings among them, are none.
func (a *messageAssembly) add(e event) (token bool, err error) {
	var m messageEvent
	if err := json.Unmarshal(e.data, &m); err != nil {
		return false, err
	}
	switch m.Type {
	case "message_start":
		return false, json.Unmarshal(m.Message, &a.message)
	case "content_block_start":
		return a.begin(m)
	case "content_block_delta":
		return a.grow(m)
	case "message_delta":
		if m.Delta.StopReason != "" {
			a.message.StopReason, token = m.Delta.StopReason, true
		}
		if !isEmpty(m.Delta.StopDetails) {
			a.message.StopDetails = m.Delta.StopDetails
		}
		// What an event tells of the usage stands over what came before it.
		if !isEmpty(m.Usage) {
			err = json.Unmarshal(m.Usage, &a.message.Usage)
		}
		return token, err
	case "message_stop":
		a.ended = true
	}
	return false, nil
}

// begin begins a block. The name of a tool is a token; a text begins empty.
func (a *messageAssembly) begin(m messageEvent) (token bool, err error) {
	b := &blockParts{index: m.Index}
	if err := json.Unmarshal(m.Block, b); err != nil {
		return false, err
	}
	if len(a.blocks) >= maxPieces {
		return false, errTooMany
	}
	a.blocks = append(a.blocks, b)
	return b.Type == "tool_use" || len(b.Text) > 0, a.keep(len(m.Block) + pieceSize)
}

func (a *messageAssembly) grow(m messageEvent) (token bool, err error) {
	b := a.block(m.Index)
	if b == nil {
		return false, errors.New("a piece of a block that has not begun")
	}
	d := m.Delta
	b.Text = append(b.Text, d.Text...)
	b.Thinking = append(b.Thinking, d.Thinking...)
	b.input = append(b.input, d.PartialJSON...)
	n := len(d.Text) + len(d.Thinking) + len(d.PartialJSON)
	return n > 0, a.keep(n)
}

func (a *messageAssembly) block(index int) *blockParts {
	for _, b := range a.blocks {
		if b.index == index {
			return b
		}
	}
	return nil
}

// keep books n more bytes.
func (a *messageAssembly) keep(n int) error {
	if a.left -= int64(n); a.left < 0 {
		return errTooLarge
	}
	return nil
}

func (a *messageAssembly) usage() Usage { return a.message.Usage.usage() }

// body is the message as far as it came.
func (a *messageAssembly) body() []byte {
	m := a.message
	m.Content = []blockParts{}
	for _, b := range a.blocks {
		switch {
		case len(b.input) == 0:
		case json.Valid(b.input):
			b.Input = json.RawMessage(b.input)
		default: // cut off: not an object, but its text
			b.Input = encodeString(string(b.input))
		}
		m.Content = append(m.Content, *b)
	}
	out, err := encodeJSON(m)
	if err != nil {
		return nil
	}
	return out
}
