package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// bodies are the least that each endpoint takes.
var bodies = map[string]json.RawMessage{
	ChatCompletions: json.RawMessage(`{"model":"auto","messages":[{"role":"user","content":"hello"}]}`),
	Completions:     json.RawMessage(`{"model":"auto","prompt":"hello"}`),
	Embeddings:      json.RawMessage(`{"model":"auto","input":"hello"}`),
	Responses:       json.RawMessage(`{"model":"auto","input":"hello"}`),
}

func TestEndpointOf(t *testing.T) {
	for url, want := range map[string]string{
		"/v1/chat/completions": ChatCompletions, "/chat/completions": ChatCompletions, "/v1/completions": Completions,
		"/completions": Completions, "/embeddings": Embeddings, "/v1/responses": Responses, "/responses": Responses,
		"": "", "/": "", "/v1/": "", "/v1": "", "/v1/v1/responses": "", "responses": "", "v1/responses": "", "/v1/images/generations": "",
		"/v1/chat/completions/": "", "/V1/responses": "", "https://api.openai.com/v1/responses": "",
	} {
		got, ok := EndpointOf(url)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t", url, got, ok)
		}
	}
}

func TestAnEndpointsPathAndBody(t *testing.T) {
	for _, endpoint := range Endpoints() {
		var path, body string
		a := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			path, body = r.URL.Path, string(raw)
		})
		r := request()
		r.Endpoint = endpoint
		r.Body = json.RawMessage(`{ "input" :"a", "prompt": [1,  2],"n":1.0,"model":"auto", "drop":1}`)
		r.Set, r.Drop = map[string]any{"user": "u"}, []string{"drop"}
		_ = refusal(t, a, t.Context(), r)
		if want := `{ "input" :"a", "prompt": [1,  2],"n":1.0,"model":"m","user":"u"}`; path != endpoint || body != want {
			t.Errorf("%s: %s to %s", endpoint, body, path)
		}
	}
}

// What a call asks of a server where silence is limited.
func TestWhatIsStreamed(t *testing.T) {
	for name, tt := range map[string]struct{ endpoint, body, want string }{
		"chat":                {ChatCompletions, `{}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"text":                {Completions, `{}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"one of one":          {Completions, `{"best_of":1}`, `{"best_of":1,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"the best of several": {Completions, `{"best_of":3}`, `{"best_of":3,"model":"m"}`},
		"embeddings":          {Embeddings, `{}`, `{"model":"m"}`},
		"a response":          {Responses, `{}`, `{"model":"m","stream":true}`},
		"with options":        {Responses, `{"stream_options":{"include_obfuscation":false}}`, `{"stream_options":{"include_obfuscation":false},"model":"m","stream":true}`},
	} {
		r := streamedRequest()
		r.Endpoint, r.Body = tt.endpoint, json.RawMessage(tt.body)
		p, err := newParcel(r)
		if err != nil {
			t.Fatal(err)
		}
		v := (&lessons{now: time.Now, all: map[subject]lesson{}}).recall(subjectOf(r, p), p)
		if got := string(p.encode(v)); !sameValue([]byte(got), []byte(tt.want)) {
			t.Errorf("%s: sent %s, want %s", name, got, tt.want)
		}
	}
}

// A server that does not stream is asked plainly, at every endpoint.
func TestAResponseThatCannotBeStreamed(t *testing.T) {
	calls := 0
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if calls++; strings.Contains(string(body), `"stream"`) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":{"message":"Streaming is not supported for this model."}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}]}`)
	})
	e := entry{Endpoint: Responses}
	for want := 2; want <= 3; want++ {
		if _, err := a.Call(t.Context(), e.ask(streamedRequest())); err != nil || calls != want {
			t.Errorf("%d calls, want %d: %v", calls, want, err)
		}
	}
}

func stored(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/endpoints/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A stream comes out as what a plain call would have brought, also by the
// official types.
func TestStreamsOfOtherEndpoints(t *testing.T) {
	for endpoint, tt := range map[string]struct {
		name   string
		usage  Usage
		finish string
	}{
		Completions: {"completions", Usage{5, 0, 4}, "stop"},
		Responses:   {"responses", Usage{37, 2, 11}, "stop"},
	} {
		stream := stored(t, tt.name+".sse")
		for form, text := range map[string]string{"as it is": stream, "with CRLF": strings.ReplaceAll(stream, "\n", "\r\n")} {
			answer, err := serve(t, say(text)).Call(t.Context(), entry{Endpoint: endpoint}.ask(streamedRequest()))
			if err != nil {
				t.Fatalf("%s %s: %v", tt.name, form, err)
			}
			if want := stored(t, tt.name+".json"); !sameValue(answer.Body, []byte(want)) {
				t.Errorf("%s %s:\ngot  %s\nwant %s", tt.name, form, answer.Body, want)
			}
			if answer.Usage != tt.usage || answer.FinishReason != tt.finish || answer.FirstToken <= 0 {
				t.Errorf("%s %s: %+v, %s, first token after %s", tt.name, form, answer.Usage, answer.FinishReason, answer.FirstToken)
			}
		}
	}
}

func TestAStreamOfResponsesThatFails(t *testing.T) {
	begun := `event: response.created` + "\n" + `data: {"type":"response.created","response":{"id":"r","status":"in_progress","error":null,"output":[]}}` + "\n\n" +
		`data: {"type":"response.output_text.delta","delta":"h"}` + "\n\n"
	for name, tt := range map[string]struct {
		stream string
		kind   Kind
	}{
		"broken off":        {begun, Unavailable},
		"[DONE] too early":  {begun + done, Unavailable},
		"no JSON":           {begun + "data: upstream closed\n\n", Unavailable},
		"an odd event":      {begun + `data: {"type":"response.completed"}` + "\n\n", Unavailable},
		"an error event":    {begun + `data: {"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null,"sequence_number":3}` + "\n\n", RateLimited},
		"a proxy's error":   {begun + `data: {"error":{"message":"upstream","type":"server_error"}}` + "\n\n", Unavailable},
		"a failed response": {begun + `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"output":[]}}` + "\n\n", RateLimited},
		"filtered":          {begun + `data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}` + "\n\n", ContentFiltered},
	} {
		_, err := serve(t, say(tt.stream)).Call(t.Context(), entry{Endpoint: Responses}.ask(streamedRequest()))
		var e *Error
		if !errors.As(err, &e) || e.Kind != tt.kind || e.StatusCode != 200 {
			t.Errorf("%s: %v, want %s", name, err, tt.kind)
		}
	}
}

// A model that thinks says at once that its response and an item of it have
// begun; only then it is silent.
func TestTheBeginningOfAResponseIsNoToken(t *testing.T) {
	for text, want := range map[string]bool{
		"response.created": false, "response.in_progress": false, "response.queued": false, "keepalive": false,
		"response.output_item.added": false, "response.content_part.added": false, "": false, "delta": false,
		"response.output_text.delta": true, "response.function_call_arguments.delta": true, "response.output_item.done": true,
		"response.web_search_call.searching": true, "response.reasoning_summary_text.delta": true,
	} {
		if got := (responseEvent{Type: scalar(text)}).isToken(); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// An answer has an embedding for each input and choices for each prompt.
func TestInputsAreCounted(t *testing.T) {
	for raw, want := range map[string]int{
		`"one"`: 1, `["a","b"]`: 2, `[1,2,3]`: 1, `[[1,2],[3]]`: 2, `[]`: 1, `null`: 1, ``: 1, ` [ "a" , "b" , "c" ]`: 3,
	} {
		if got := inputs([]byte(raw)); got != want {
			t.Errorf("%s: %d", raw, got)
		}
	}
	two := `{"data":[{"embedding":[1]},{"embedding":[2]}]}`
	for want, ok := range map[int]bool{1: true, 2: true, 3: false} {
		if _, e := embeddings(want).read(200, http.Header{}, []byte(two), noon); (e == nil) != ok {
			t.Errorf("two embeddings for %d: %v", want, e)
		}
	}
	r := streamedRequest()
	r.Endpoint, r.Body = Embeddings, json.RawMessage(`{"input":["a","b","c"]}`)
	if e := refusal(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, two) }), t.Context(), r); e.Kind != Unavailable {
		t.Errorf("two embeddings for three inputs: %v", e)
	}
	r.Endpoint, r.Body = Completions, json.RawMessage(`{"prompt":["a","b"],"n":3}`)
	if p, err := newParcel(r); err != nil || p.choices() != 6 {
		t.Errorf("%v, %v", p, err)
	}
}

// The official types read every answer of the corpus.
func TestOfficialTypesReadTheAnswers(t *testing.T) {
	for name, e := range corpus(t) {
		if e.Want.Kind != OK {
			continue
		}
		var err error
		ok := true
		switch e.Endpoint {
		case Completions:
			var c openai.Completion
			err = json.Unmarshal(e.body(), &c)
			ok = len(c.Choices) > 0 && c.Choices[0].Text != ""
		case Embeddings:
			if strings.Contains(name, "base64") { // the type knows numbers alone
				continue
			}
			var c openai.CreateEmbeddingResponse
			err = json.Unmarshal(e.body(), &c)
			ok = len(c.Data) > 0 && len(c.Data[0].Embedding) > 0
		case Responses:
			var c responses.Response
			err = json.Unmarshal(e.body(), &c)
			ok = c.ID != "" && len(c.Output) > 0
		}
		if err != nil || !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The texts of a ladder look to the official types like the answers of a model.
func TestOfficialTypesReadTheTextsOfALadder(t *testing.T) {
	const want = "About Moby Dick: <later>."
	read := func(name string, into any) {
		b, err := os.ReadFile("../ladder/testdata/" + name + ".json")
		if err == nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var chat openai.ChatCompletion
	if read("text_chat", &chat); chat.Choices[0].Message.Content != want {
		t.Errorf("%+v", chat)
	}
	var text openai.Completion
	if read("text_completion", &text); len(text.Choices) != 2 || text.Choices[1].Text != want || text.Choices[1].Index != 1 {
		t.Errorf("%+v", text)
	}
	var response responses.Response
	if read("text_response", &response); response.OutputText() != want || response.Status != responses.ResponseStatusCompleted {
		t.Errorf("%+v", response)
	}
}

// FuzzEndpoints holds the readers of the other endpoints to their promises: no
// panic, JSON, and an error that says something.
func FuzzEndpoints(f *testing.F) {
	for _, e := range corpus(f) {
		f.Add(e.body(), e.Endpoint, e.Status)
	}
	for name, endpoint := range map[string]string{"completions.sse": Completions, "responses.sse": Responses} {
		f.Add([]byte(stored(f, name)), endpoint, 200)
	}
	f.Fuzz(func(t *testing.T, text []byte, endpoint string, status int) {
		w := watchCall(t.Context(), Request{Timeout: patient})
		defer w.close()
		x := &exchange{watch: w, maxBody: 4096, choices: 1, family: familyOf(&parcel{endpoint: endpoint}), response: &http.Response{StatusCode: status, Header: http.Header{}}}
		x.response.Body = io.NopCloser(strings.NewReader(string(text)))
		if x.streamed = status < 300 && endpoint != Embeddings; x.streamed {
			x.reading, x.err = x.readStream(x.response)
		} else {
			x.body, x.err = x.read(x.response)
		}
		if x.err != nil {
			return
		}
		answer, e := x.outcome(noon)
		if e == nil && !json.Valid(answer.Body) {
			t.Fatalf("an answer that is not JSON: %q", answer.Body)
		}
		if e != nil && (e.Kind == OK || e.Kind == "" || e.Message == "") {
			t.Fatalf("%+v", e)
		}
	})
}
