package provider

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// recorded reads the streams of testdata/streams, by the server that sends such.
func recorded(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d streams: %v", len(files), err)
	}
	all := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".sse")] = string(text)
	}
	return all
}

// Each server has its own ways: Azure's filter before the first choice, vLLM's
// usage in every chunk, Ollama's without usage and [DONE], llama.cpp's timings,
// OpenAI's padding, DeepSeek's keep-alives.
func TestStreamsOfServers(t *testing.T) {
	usage := map[string]Usage{
		"azure": {9, 0, 3}, "vllm": {11, 0, 5}, "ollama": {}, "llamacpp": {20, 0, 2}, "openai": {8, 4, 3}, "deepseek": {17, 16, 9},
	}
	for name, stream := range recorded(t) {
		for form, text := range map[string]string{
			"as it is": stream, "with CRLF": strings.ReplaceAll(stream, "\n", "\r\n"), "without empty lines": strings.ReplaceAll(stream, "\n\n", "\n"),
		} {
			answer, err := serve(t, say(text)).Call(t.Context(), streamedRequest())
			if err != nil {
				t.Fatalf("%s %s: %v", name, form, err)
			}
			raw, err := os.ReadFile("testdata/streams/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			if !sameValue(answer.Body, raw) {
				t.Errorf("%s %s:\ngot  %s\nwant %s", name, form, answer.Body, raw)
			}
			if answer.Usage != usage[name] {
				t.Errorf("%s %s: usage %+v", name, form, answer.Usage)
			}
		}
	}
}

func sameValue(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Azure's base URL carries a version in its query, also of a stream.
func TestAzuresQueryGoesOutWithAStream(t *testing.T) {
	var got string
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.String()
		say(recorded(t)["azure"])(w, r)
	}, func(o *OpenAIOptions) {
		o.BaseURL = strings.TrimSuffix(o.BaseURL, "/v1") + "/openai/deployments/gpt?api-version=2024-10-21"
		o.Headers = map[string]string{"api-key": "k"}
	})
	if _, err := a.Call(t.Context(), streamedRequest()); err != nil || got != "/openai/deployments/gpt/chat/completions?api-version=2024-10-21" {
		t.Errorf("sent to %s: %v", got, err)
	}
}

// Only what is kept of a stream counts against the limit.
func TestAnAnswerIsBoundedAndItsStreamIsNot(t *testing.T) {
	chunk := chunks(`{"index":0,"delta":{"content":"0123456789"}}`)
	for n, want := range map[int]Kind{300: OK, 1000: Unavailable} {
		a := serve(t, say(strings.Repeat(chunk, n)+done), func(o *OpenAIOptions) { o.MaxResponse = 8 << 10 })
		got := OK
		answer, err := a.Call(t.Context(), streamedRequest())
		if err != nil {
			got = refusal(t, a, t.Context(), streamedRequest()).Kind
		} else if strings.Count(string(answer.Body), "0123456789") != n {
			t.Errorf("%d chunks: %s", n, answer.Body)
		}
		if got != want {
			t.Errorf("%d chunks: %s, %v", n, got, err)
		}
	}
}

// Nothing that a server makes up costs memory beyond the limit.
func TestAnAnswerOfManyPiecesIsRefused(t *testing.T) {
	for name, piece := range map[string]func(i int) string{
		"choices":    func(i int) string { return `{"choices":[{"index":` + number(i) + `,"delta":{}}]}` },
		"tool calls": func(i int) string { return `{"choices":[{"delta":{"tool_calls":[{"index":` + number(i) + `}]}}]}` },
		"fields":     func(i int) string { return `{"f` + number(i) + `":null}` },
		"of a delta": func(i int) string { return `{"choices":[{"delta":{"f` + number(i) + `":null}}]}` },
	} {
		a := &assembly{left: math.MaxInt64}
		var err error
		n := 0
		for ; err == nil && n <= 2*maxPieces; n++ {
			_, err = a.add([]byte(piece(n)))
		}
		if err == nil || n > maxPieces+2 {
			t.Errorf("%s: %d were taken, %v", name, n, err)
		}
	}
}

func number(i int) string { b, _ := json.Marshal(i); return string(b) }

// FuzzStream holds the reader and the assembly to their promises: no panic,
// bounded memory, and a body that is JSON.
func FuzzStream(f *testing.F) {
	for _, s := range recorded(f) {
		f.Add([]byte(s))
	}
	f.Add([]byte(chunks(`{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}}`, `{"delta":{"content":[{"type":"thinking","thinking":[]}]}}`)))
	f.Add([]byte("error: {}\n\n: x\ndata: [DONE]\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 4096
		w := watchCall(t.Context(), Request{Timeout: patient})
		defer w.close()
		x := &exchange{watch: w, maxBody: limit, choices: 1, family: familyOf(&parcel{endpoint: ChatCompletions}), response: &http.Response{StatusCode: 200, Header: http.Header{}}}
		x.response.Body = io.NopCloser(strings.NewReader(string(stream)))
		x.reading, x.err = x.readStream(x.response)
		if len(x.body) > 4*limit {
			t.Fatalf("%d bytes of %d", len(x.body), limit)
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

// FuzzAssembly divides an answer's text anywhere, and it must come out whole.
func FuzzAssembly(f *testing.F) {
	f.Add("Grüße 😀 \u2028 \x00 \"\\", uint8(3))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		quoted, err := json.Marshal(text)
		if err != nil {
			return
		}
		var want string
		if json.Unmarshal(quoted, &want) != nil {
			return
		}
		a := &assembly{left: math.MaxInt64}
		runes := []rune(want)
		for len(runes) > 0 {
			n := min(len(runes), int(size)+1)
			part, _ := json.Marshal(string(runes[:n]))
			runes = runes[n:]
			if _, err := a.add([]byte(`{"choices":[{"delta":{"content":` + string(part) + `}}]}`)); err != nil {
				t.Fatal(err)
			}
		}
		var got completion
		var content string
		if err := json.Unmarshal(a.body(), &got); err != nil {
			t.Fatal(err)
		}
		if want != "" && (json.Unmarshal(got.Choices[0].Message.Content, &content) != nil || content != want) {
			t.Fatalf("%q became %q", want, content)
		}
	})
}
