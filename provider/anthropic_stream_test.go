package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// streamOf is a plain answer as the API streams it, in small pieces, with pings
// and comments between them.
func streamOf(t testing.TB, message []byte) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatal(err)
	}
	var blocks []map[string]json.RawMessage
	if err := json.Unmarshal(m["content"], &blocks); err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	event := func(name string, fields map[string]any) {
		fields["type"] = name
		data, _ := json.Marshal(fields)
		fmt.Fprintf(&s, "event: %s\ndata: %s\n\n", name, data)
	}
	start := map[string]any{}
	for k, v := range m {
		start[k] = v
	}
	start["content"], start["stop_reason"], start["stop_details"] = []any{}, nil, nil
	event("message_start", map[string]any{"message": start})
	event("ping", map[string]any{})
	for i, b := range blocks {
		streamBlock(event, i, b)
		s.WriteString(": keep-alive\n\n")
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": m["stop_reason"], "stop_sequence": m["stop_sequence"], "stop_details": m["stop_details"]},
		"usage": m["usage"],
	})
	event("message_stop", map[string]any{})
	return s.String()
}

// streamBlock is one block: its beginning, its text in pieces, its end.
func streamBlock(event func(string, map[string]any), i int, b map[string]json.RawMessage) {
	begun := map[string]any{}
	for k, v := range b {
		begun[k] = v
	}
	deltas := map[string][2]string{
		"text": {"text_delta", "text"}, "thinking": {"thinking_delta", "thinking"}, "input": {"input_json_delta", "partial_json"},
	}
	var pieces []map[string]any
	for field, d := range deltas {
		raw, ok := b[field]
		if !ok {
			continue
		}
		text := string(raw)
		begun[field] = map[string]any{}
		if field != "input" {
			_ = json.Unmarshal(raw, &text) // it is a string
			begun[field] = ""
		}
		if text == "{}" {
			continue
		}
		for part := range splitBy(text, 3) {
			pieces = append(pieces, map[string]any{"type": d[0], d[1]: part})
		}
	}
	event("content_block_start", map[string]any{"index": i, "content_block": begun})
	for _, p := range pieces {
		event("content_block_delta", map[string]any{"index": i, "delta": p})
	}
	event("content_block_stop", map[string]any{"index": i})
}

// splitBy yields a text in pieces of n characters.
func splitBy(text string, n int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for r := []rune(text); len(r) > 0; r = r[min(n, len(r)):] {
			if !yield(string(r[:min(n, len(r))])) {
				return
			}
		}
	}
}

func streamed() Request {
	r := request()
	r.FirstToken, r.Idle = patient, patient
	return r
}

func serveStream(t *testing.T, text string) *Anthropic {
	return serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			t.Errorf("no stream was asked for: %s", body)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("Date", noon.Format(http.TimeFormat))
		_, _ = io.WriteString(w, text)
	})
}

// Every answer of the corpus comes out of a stream as it does plain.
func TestStreamedMessagesAreThePlainOnes(t *testing.T) {
	long := strings.Repeat("日本語 🎉 \\ \" \n é", 2000)
	body, _ := json.Marshal(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
		"content": []any{map[string]any{"type": "text", "text": long}}, "usage": map[string]any{"input_tokens": 1, "output_tokens": 2},
	})
	entries := map[string]entry{"long Unicode": {Status: 200, Body: body}}
	for name, e := range corpusOf(t, "anthropic") {
		if e.Status == 200 && strings.Contains(string(e.Body), `"content"`) && !strings.Contains(string(e.Body), `"choices"`) {
			entries[name] = e
		}
	}
	if len(entries) < 14 {
		t.Fatalf("only %d answers", len(entries))
	}
	for name, e := range entries {
		h := http.Header{"Request-Id": {"req_1"}, "Date": {noon.Format(http.TimeFormat)}}
		want, wantErr := readMessage(200, h, e.body(), noon)
		got, err := serveStream(t, streamOf(t, e.body())).Call(t.Context(), streamed())
		if wantErr != nil {
			var e *Error
			if !errors.As(err, &e) || e.Kind != wantErr.Kind || e.Usage != wantErr.Usage || e.RequestID != "req_1" {
				t.Errorf("%s: %+v, want %+v", name, err, wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(got.Body) != string(want.Body) || got.Usage != want.Usage || got.FinishReason != want.FinishReason || got.RequestID != want.RequestID {
			t.Errorf("%s:\n%s\nwant\n%s", name, got.Body, want.Body)
		}
		if got.FirstToken <= 0 {
			t.Errorf("%s: the first token's time is not known", name)
		}
	}
}

const (
	startEvent = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
	pingEvent  = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	blockEvent = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	textEvent  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
	doneEvent  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n"
	stopEvent  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func errorEvent(kind string) string {
	return "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + kind + "\",\"message\":\"Something\"}}\n\n"
}

// The API may say null for what it told before: that is still billed.
func TestANullInAStreamsUsageIsNoNews(t *testing.T) {
	last := strings.Replace(doneEvent, `"output_tokens":9`, `"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":9`, 1)
	got, err := serveStream(t, startEvent+blockEvent+textEvent+last+stopEvent).Call(t.Context(), streamed())
	if want := (Usage{InputTokens: 25, OutputTokens: 9}); err != nil || got.Usage != want {
		t.Errorf("usage %+v, want %+v: %v", got.Usage, want, err)
	}
}

// TestCase15_41 is cases 15 and 41 for the Messages API: an error inside of a
// stream, before or after its first token, and a stream that dies.
func TestCase15_41_MessageStreamsThatAreNoAnswer(t *testing.T) {
	begun := startEvent + blockEvent + textEvent
	tests := map[string]struct {
		text  string
		kind  Kind
		scope Scope
	}{
		"overloaded at once":     {errorEvent("overloaded_error"), Unavailable, ""},
		"overloaded in between":  {begun + errorEvent("overloaded_error"), Unavailable, ""},
		"failed in between":      {begun + errorEvent("api_error"), Unavailable, ""},
		"timed out in between":   {begun + errorEvent("timeout_error"), Unavailable, ""},
		"a rate limit":           {startEvent + errorEvent("rate_limit_error"), RateLimited, ""},
		"no permission":          {errorEvent("permission_error"), Misconfigured, ScopeParent},
		"billing":                {errorEvent("billing_error"), QuotaExhausted, ScopeParent},
		"a bad request":          {errorEvent("invalid_request_error"), InvalidRequest, ""},
		"a nameless error":       {begun + "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n", Unavailable, ""},
		"an error that is text":  {begun + "event: error\ndata: upstream closed\n\n", Unavailable, ""},
		"no end":                 {begun, Unavailable, ""},
		"nothing":                {"", Unavailable, ""},
		"comments alone":         {": hello\n\n", Unavailable, ""},
		"not JSON":               {begun + "data: hello\n\n", Unavailable, ""},
		"a piece of no block":    {startEvent + textEvent, Unavailable, ""},
		"an end without content": {startEvent + doneEvent + stopEvent, Unavailable, ""},
		"a plain refusal":        {`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Unavailable, ""},
		"a page":                 {"<html>hello</html>", Unavailable, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := refusalOf(t, serveStream(t, tt.text), streamed())
			if e.Kind != tt.kind || e.Scope != tt.scope || e.StatusCode != 200 || e.Message == "" || strings.Contains(e.Message, "Something") {
				t.Errorf("got %+v", e)
			}
			if strings.HasPrefix(tt.text, startEvent) && e.Usage.InputTokens != 25 {
				t.Errorf("usage %+v: the input was billed", e.Usage)
			}
			if strings.Contains(tt.text, "Something") && !strings.Contains(string(e.Body), "Something") {
				t.Errorf("the error's text is lost: %s", e.Body)
			}
		})
	}
}

// What is whole without its last words, or came plainly, is an answer.
func TestMessageStreamsThatAreAnswersAllTheSame(t *testing.T) {
	for name, text := range map[string]string{
		"no message_stop":                startEvent + pingEvent + blockEvent + textEvent + doneEvent,
		"[DONE] in its place":            startEvent + blockEvent + textEvent + doneEvent + "data: [DONE]\n\n",
		"an error after the end":         startEvent + blockEvent + textEvent + doneEvent + errorEvent("overloaded_error"),
		"a nameless error after the end": startEvent + blockEvent + textEvent + doneEvent + "data: {\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}\n\n",
		"no JSON after the end":          startEvent + blockEvent + textEvent + doneEvent + "data: upstream closed\n\n",
		"odd JSON after the end":         startEvent + blockEvent + textEvent + doneEvent + "data: {\"type\":\"message_delta\",\"usage\":\"none\"}\n\n" + stopEvent,
		"events of later times":          startEvent + "event: new\ndata: {\"type\":\"new\",\"x\":1}\n\n" + blockEvent + textEvent + doneEvent + stopEvent,
		"a plain answer":                 strings.Replace(okMessage, `"input_tokens":3,"output_tokens":1`, `"input_tokens":25,"output_tokens":9`, 1),
		"carriage returns":               strings.ReplaceAll(startEvent+blockEvent+textEvent+doneEvent+stopEvent, "\n", "\r\n"),
	} {
		answer, err := serveStream(t, text).Call(t.Context(), streamed())
		if err != nil || answer.FinishReason != "stop" || answer.Usage != (Usage{InputTokens: 25, OutputTokens: 9}) || !strings.Contains(string(answer.Body), `"content":"hi"`) {
			t.Errorf("%s: %s, %+v, %v", name, answer.Body, answer.Usage, err)
		}
	}
}

// A tool's input that the token limit cut off is passed on as it came.
func TestToolInputThatIsCutOff(t *testing.T) {
	text := startEvent +
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\": \\\"ab\"}}\n\n" +
		strings.Replace(doneEvent, "end_turn", "max_tokens", 1) + stopEvent
	answer, err := serveStream(t, text).Call(t.Context(), streamed())
	if err != nil || answer.FinishReason != "length" || !strings.Contains(string(answer.Body), `"arguments":"{\"x\": \"ab"`) {
		t.Errorf("%s, %v", answer.Body, err)
	}
}

// hangAfter sends a text, and then a ping or a comment again and again.
func hangAfter(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, pingEvent+": keep-alive\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// Pings and comments are no tokens.
func TestMessageStreamsThatFallSilent(t *testing.T) {
	const short = 60 * time.Millisecond
	begun := startEvent + blockEvent + textEvent
	tests := map[string]struct {
		text               string
		first, idle, whole time.Duration
		said               string
		stalled, billed    bool
	}{
		"before the first token": {text: startEvent, first: short, idle: patient, whole: patient, said: "first_token", stalled: true, billed: true},
		"at once":                {text: "", first: short, idle: patient, whole: patient, said: "first_token", stalled: true},
		"after a token":          {text: begun, first: patient, idle: short, whole: patient, said: "idle", stalled: true, billed: true},
		"within the whole":       {text: begun, first: patient, idle: patient, whole: short, said: "timeout", billed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := request()
			r.FirstToken, r.Idle, r.Timeout = tt.first, tt.idle, tt.whole
			e := refusalOf(t, serveMessages(t, hangAfter(tt.text)), r)
			if e.Kind != Timeout || !strings.Contains(e.Message, tt.said) || errors.Is(e, ErrStalled) != tt.stalled {
				t.Errorf("got %+v", e)
			}
			if tt.billed && e.Usage.InputTokens != 25 {
				t.Errorf("usage %+v", e.Usage)
			}
		})
	}
}

// A stream that breaks in the middle is unavailable, whatever had come.
func TestCase15_MessageStreamThatBreaks(t *testing.T) {
	a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, startEvent+blockEvent+textEvent)
		_ = http.NewResponseController(w).Flush()
		reset(w)
	})
	if e := refusalOf(t, a, streamed()); e.Kind != Unavailable || e.StatusCode != 200 {
		t.Errorf("got %+v", e)
	}
}

// Nothing of an answer comes after the reason of its end.
func TestMessageStreamThatBreaksAfterItsLastWordIsWhole(t *testing.T) {
	a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, startEvent+blockEvent+textEvent+doneEvent)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	answer, err := a.Call(t.Context(), streamed())
	if err != nil || answer.FinishReason != "stop" || answer.Usage.OutputTokens != 9 {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestMessageStreamBeyondTheLimitIsUnavailable(t *testing.T) {
	a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, startEvent+blockEvent+strings.Repeat(textEvent, 1000)+doneEvent+stopEvent)
	}, func(o *AnthropicOptions) { o.MaxResponse = 1000 })
	if e := refusalOf(t, a, streamed()); e.Kind != Unavailable || !strings.Contains(e.Message, "larger") {
		t.Errorf("got %+v", e)
	}
}

func FuzzMessageStream(f *testing.F) {
	f.Add([]byte(startEvent + pingEvent + blockEvent + textEvent + doneEvent + stopEvent))
	f.Add([]byte(startEvent + errorEvent("overloaded_error")))
	for _, e := range corpusOf(f, "anthropic") {
		if e.Want.Kind == OK {
			f.Add([]byte(streamOf(f, e.body())))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := watchCall(t.Context(), Request{Timeout: patient})
		defer w.close()
		x := &exchange{watch: w, maxBody: 1 << 20, family: messagesFamily(), response: &http.Response{StatusCode: 200, Header: http.Header{}}}
		x.reading, x.err = x.readMessageEvents(newEvents(strings.NewReader(string(text)), x.maxBody))
		if x.err != nil {
			return
		}
		answer, refusal := x.outcome(noon)
		if refusal == nil && !json.Valid(answer.Body) {
			t.Fatalf("%s", answer.Body)
		}
		if refusal != nil && (refusal.Kind == OK || refusal.Message == "") {
			t.Fatalf("%+v", refusal)
		}
	})
}
