package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const secretKey = "sk-live/0123456789<abcdef>&"

// echoing says the key that it was sent wherever a response can say something.
func echoing(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key")
		quoted := strings.NewReplacer(`/`, `\/`, `<`, `\u003c`, `>`, `\u003e`, `&`, `\u0026`).Replace(key)
		w.Header().Set("X-Request-Id", "req-"+key)
		w.Header().Set("Request-Id", "req-"+key)
		say := func(status int, kind, text string) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, text)
		}
		openai := r.Header.Get("Authorization") != ""
		switch how := r.Header.Get("X-How"); {
		case r.Method == http.MethodGet:
			say(503, "text/plain", "down for "+key)
		case how == "answer" && openai:
			say(200, "application/json", fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"you sent %s"}}]}`, key))
		case how == "answer":
			say(200, "application/json", fmt.Sprintf(`{"type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"you sent %s"}],"usage":{"input_tokens":1,"output_tokens":1}}`, key))
		case how == "refusal":
			say(400, "application/json", fmt.Sprintf(`{"error":{"type":"%s","code":"%s","message":"what is %s?"}}`, key, key, quoted))
		case how == "failure":
			say(503, "application/json", fmt.Sprintf(`{"error":{"type":"down","message":"Authorization: Bearer %s"}}`, key))
		case how == "half":
			say(200, "application/json", `{"choices": "`+key)
		case how == "event":
			say(200, "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\""+key+"\"}}\n\n")
		default:
			say(502, "text/html", "<h1>"+key+"</h1>")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// Whatever a server says of the key, nothing that a call returns holds it.
func TestKeyIsKeptFromWhatAServerSays(t *testing.T) {
	s := echoing(t)
	key := func(context.Context) (string, error) { return secretKey, nil }
	type caller interface {
		Call(context.Context, Request) (Answer, error)
		Health(context.Context, string, time.Duration) (int, error)
	}
	said := func(answer Answer, err error) string {
		var e *Error
		if errors.As(err, &e) {
			return fmt.Sprintf("%+v %v", *e, err)
		}
		return fmt.Sprintf("%s %+v", answer.Body, answer)
	}
	for _, how := range []string{"answer", "refusal", "failure", "half", "event", "page"} {
		headers := map[string]string{"X-How": how}
		for family, a := range map[string]caller{
			"openai":    NewOpenAI(OpenAIOptions{BaseURL: s.URL + "/v1", Headers: headers, Key: key}),
			"anthropic": NewAnthropic(AnthropicOptions{BaseURL: s.URL, Headers: headers, Key: key}),
		} {
			r := Request{
				Endpoint: ChatCompletions, Model: "m", Timeout: time.Minute,
				Body: []byte(`{"messages":[{"role":"user","content":"hello"}],"max_tokens":5}`),
			}
			if how == "event" {
				r.FirstToken, r.Idle = time.Minute, time.Minute
			}
			text := said(a.Call(t.Context(), r))
			for _, spelled := range spellings(secretKey) {
				if strings.Contains(text, spelled) {
					t.Errorf("%s, %s: the key is in %s", family, how, text)
				}
			}
			if !strings.Contains(text, concealed) {
				t.Errorf("%s, %s: nothing of it was said: %s", family, how, text)
			}
			_, err := a.Health(t.Context(), "/health", time.Minute)
			if text := said(Answer{}, err); strings.Contains(text, secretKey) || !strings.Contains(text, concealed) {
				t.Errorf("%s: the health path says %s", family, text)
			}
		}
	}
}

// A placeholder in the place of a key is a word like others.
func TestPlaceholderIsNoSecret(t *testing.T) {
	x := &exchange{key: "ollama", reading: reading{body: []byte("ollama runs models")}, response: &http.Response{Header: http.Header{"X": {"ollama"}}}}
	x.conceal()
	if string(x.body) != "ollama runs models" || x.response.Header.Get("X") != "ollama" {
		t.Errorf("got %s, %v", x.body, x.response.Header)
	}
}
