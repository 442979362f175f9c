package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"nightshift/provider"
)

// lineTo is a line of another endpoint.
func lineTo(url, body string) string {
	return fmt.Sprintf(`{"custom_id":"a","method":"POST","url":%q,"body":%s}`, url, body)
}

func TestLinesOfEachEndpoint(t *testing.T) {
	for text, endpoint := range map[string]string{
		lineTo("/v1/chat/completions", `{"messages":[{}]}`):                        provider.ChatCompletions,
		lineTo("/chat/completions", `{"model":"m","messages":[{}],"stream":null}`): provider.ChatCompletions,
		lineTo("/v1/completions", `{"prompt":"Say"}`):                              provider.Completions,
		lineTo("/completions", `{"prompt":["a","b"]}`):                             provider.Completions,
		lineTo("/v1/completions", `{"prompt":[1,2]}`):                              provider.Completions,
		lineTo("/v1/embeddings", `{"input":"a","model":"m","metadata":{"k":1}}`):   provider.Embeddings,
		lineTo("/embeddings", `{"input":[[1],[2]]}`):                               provider.Embeddings,
		lineTo("/v1/responses", `{"input":"a","stream":false}`):                    provider.Responses,
		lineTo("/responses", `{"input":[{"role":"user","content":"a"}]}`):          provider.Responses,
		lineTo("/v1/responses", `{"prompt":{"id":"pmpt_1"},"background":false}`):   provider.Responses,
	} {
		l, err := parseLine([]byte(text))
		if err != nil || l.Endpoint != endpoint || !strings.Contains(text, string(l.Body)) {
			t.Errorf("%s: %+v, %v", text, l, err)
		}
	}
}

func TestWhatABodyOfAnEndpointLacks(t *testing.T) {
	const input = "it must be a text or an array of texts or tokens that is not empty"
	for text, want := range map[string]string{
		lineTo("/v1/completions", `{"messages":[{}]}`):                  "body.prompt: it is missing",
		lineTo("/v1/completions", `{"prompt":[]}`):                      "body.prompt: " + input,
		lineTo("/v1/completions", `{"prompt":{"id":"p"}}`):              "body.prompt: " + input,
		lineTo("/v1/completions", `{"prompt":"a","stream":true}`):       "body.stream: answers of a batch are not streamed; leave it out",
		lineTo("/v1/embeddings", `{"prompt":"a"}`):                      "body.input: it is missing",
		lineTo("/v1/embeddings", `{"input":[{}]}`):                      "body.input: " + input,
		lineTo("/v1/embeddings", `{"input":null}`):                      "body.input: " + input,
		lineTo("/v1/embeddings", `{"input":"a","stream":1}`):            "body.stream: answers of a batch are not streamed; leave it out",
		lineTo("/v1/responses", `{"messages":[{}]}`):                    "body.input: it is missing",
		lineTo("/v1/responses", `{"prompt":"a"}`):                       "body.input: it is missing",
		lineTo("/v1/responses", `{"input":[]}`):                         "body.input: it must be a text or an array with at least one item",
		lineTo("/v1/responses", `{"input":"a","background":true}`):      "body.background: answers of a batch are waited for; leave it out",
		lineTo("/v1/chat/completions", `{"input":"a"}`):                 "body.messages: it is missing",
		lineTo("/v1/audio/transcriptions", `{}`):                        `url: "/v1/audio/transcriptions" is not supported; these are: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses`,
		`{"custom_id":"a","method":"POST","body":{}}`:                   "url: it is missing",
		`{"custom_id":"a","method":"POST","url":5,"body":{}}`:           "url: it is a number, not a string",
		lineTo("/v1/embeddings", `{"input":"a","input":"b"}`):           "body.input: it stands there twice",
		lineTo("/v1/completions", `{"prompt":[ true ],"max_tokens":1}`): "body.prompt: " + input,
	} {
		if l, err := parseLine([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %+v, %v; want %s", text, l, err, want)
		}
	}
}

// A line that nobody can serve is named with its number, and by its url.
func TestAnEndpointThatNoRungHas(t *testing.T) {
	text := lineTo("/v1/chat/completions", `{"model":"b","messages":[{}]}`) + "\n" + lineTo("/v1/embeddings", `{"input":"a"}`)
	r, err := OpenReader(strings.NewReader(text), "in.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r.Rung = func(string) (int, bool) { return 1, true }
	asked := map[string]int{}
	r.Serves = func(endpoint string, rung int) error {
		asked[endpoint] = rung
		if endpoint == provider.Embeddings {
			return errors.New("nobody has it")
		}
		return nil
	}
	if l, _, err := r.Next(); err != nil || l.Rung != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, _, err := r.Next(); err == nil || err.Error() != "in.jsonl:2: url: nobody has it" {
		t.Error(err)
	}
	if asked[provider.ChatCompletions] != 1 || asked[provider.Embeddings] != 0 || len(asked) != 2 {
		t.Error(asked)
	}
}
