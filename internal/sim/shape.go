package sim

import (
	"encoding/json"
	"net/http"
	"strings"
)

// shape is an endpoint beside the chat completions: every call is answered as a
// chat, with the same behaviour and faults, and told in its own shape.
type shape interface {
	// parse reads a request as the chat that it is like, and what a provider
	// would refuse it for.
	parse(body []byte) (req chatRequest, problem string)
	// answer is a whole answer in the endpoint's shape.
	answer(a answer) any
	// event is an event of a stream, in and out as text; "" sends none.
	event(c chunk) string
	// end is the end of a stream.
	end() string
}

// shaped serves an endpoint.
func (s *Server) shaped(newShape func() shape) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sw := &shapeWriter{ResponseWriter: w, shape: newShape()}
		s.serve(sw, r, sw.shape.parse)
		sw.finish()
	}
}

// shapeWriter takes a response to a chat and sends it in another shape: a stream
// as it comes, everything else at finish. Errors, and what is no JSON, pass as
// they are.
type shapeWriter struct {
	http.ResponseWriter
	shape
	status   int
	body     []byte
	streamed bool
}

// Unwrap lets the connection be flushed and broken through it.
func (w *shapeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader keeps the status for finish.
func (w *shapeWriter) WriteHeader(status int) { w.status = status }

// Write keeps the body for finish, but for an event of a stream.
func (w *shapeWriter) Write(b []byte) (int, error) {
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		w.body = append(w.body, b...)
		return len(b), nil
	}
	w.streamed = true
	if _, err := w.ResponseWriter.Write([]byte(w.translate(string(b)))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *shapeWriter) translate(event string) string {
	data, isData := strings.CutPrefix(strings.TrimSpace(event), "data: ")
	if data == "[DONE]" {
		return w.end()
	}
	var c chunk
	if !isData || json.Unmarshal([]byte(data), &c) != nil || c.ID == "" {
		return event // a comment, or an error
	}
	return w.event(c)
}

// finish sends what was kept.
func (w *shapeWriter) finish() {
	if w.streamed || w.status == 0 && w.body == nil { // sent, or the connection was broken
		return
	}
	var a struct {
		answer
		Error json.RawMessage `json:"error"`
	}
	out := w.body
	if json.Unmarshal(w.body, &a) == nil && a.Error == nil {
		out, _ = json.Marshal(w.answer(a.answer)) // plain values
	}
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	_, _ = w.ResponseWriter.Write(out) // a client that went away is on the log anyway
}

// user is a message of the user's with a text.
func user(text string) message {
	content, _ := json.Marshal(text) // a text
	return message{Role: "user", Content: content}
}

// inputs are the texts of a prompt or an input: one, or several.
func inputs(raw json.RawMessage) []string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []string{text}
	}
	var all []json.RawMessage
	_ = json.Unmarshal(raw, &all) // neither: none
	if len(all) > 0 && all[0][0] != '"' && all[0][0] != '[' {
		return []string{string(raw)} // tokens
	}
	var texts []string
	for _, one := range all {
		text := string(one)
		_ = json.Unmarshal(one, &text) // tokens stay as they are written
		texts = append(texts, text)
	}
	return texts
}
