package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

var examples = flag.String("examples", "", "a `FOLDER` of further files for TestDocumentedFiles, and in its folder refused those that are to be refused")

// documentedConfig has the models that the documented files name, and a ladder
// that has none of them.
const documentedConfig = `
providers:
  openai: {base_url: "SIM"}
  azure: {base_url: "SIM"}
  vllm: {base_url: "SIM"}
models:
  openai/gpt-3.5-turbo-0125: {}
  azure/REPLACE-WITH-MODEL-DEPLOYMENT-NAME: {}
  vllm/meta-llama/Meta-Llama-3-8B-Instruct: {}
  vllm/intfloat/e5-mistral-7b-instruct: {}
  openai/other: {}
ladders:
  named:
    rungs:
      - {model: openai/gpt-3.5-turbo-0125}
      - {model: azure/REPLACE-WITH-MODEL-DEPLOYMENT-NAME}
      - {model: vllm/meta-llama/Meta-Llama-3-8B-Instruct}
      - {model: vllm/intfloat/e5-mistral-7b-instruct}
  other:
    rungs: [{model: openai/other}]
queues:
  named: {ladder: named, concurrency: 4}
  other: {ladder: other, concurrency: 4}
`

// TestDocumentedFiles submits files of the shapes that OpenAI, Azure and vLLM
// document, as they are: batch/testdata/examples/README.md says where each comes
// from. Each is done once with the models that it names and once with another.
func TestDocumentedFiles(t *testing.T) {
	d := newDesk(t, documentedConfig)
	d.work(t)
	for _, file := range documented(t, "*.jsonl") {
		for queue, flags := range map[string][]string{"named": nil, "other": {"--ignore-model"}} {
			t.Run(filepath.Base(file)+"/"+queue, func(t *testing.T) {
				args := append([]string{"batch", "--queue", queue, "--again", "--wait"}, flags...)
				id := strings.TrimSpace(d.must(t, append(args, file)...))
				results := d.must(t, "results", id)
				d.compare(t, file, queue == "named", results)
			})
		}
	}
}

// Files for endpoints that are not supported are refused as they are, every line
// by its number.
func TestDocumentedFilesOfOtherEndpoints(t *testing.T) {
	d := newDesk(t, documentedConfig)
	for _, file := range documented(t, "refused/*.jsonl") {
		text := read(t, file)
		code, stdout, stderr := d.enqueue("batch", "--ignore-model", file)
		want := regexp.MustCompile(`(?m):\d+: url: "/v1/\w+" is not supported; these are: /v1/chat/completions, `)
		if n := len(want.FindAllString(stderr, -1)); code != 1 || stdout != "" || n != strings.Count(text, "\n") {
			t.Errorf("%s: exit %d, %d lines named, %s%s", file, code, n, stdout, stderr)
		}
	}
	if got := strings.TrimSpace(d.must(t, "status", "--json")); got != "[]" {
		t.Errorf("something was enqueued: %s", got)
	}
}

// documented are the files of the repository, and those of -examples.
func documented(t *testing.T, pattern string) (files []string) {
	t.Helper()
	for _, dir := range []string{"../../batch/testdata/examples", *examples} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 && dir != "" {
			t.Fatalf("no file %s in %s", pattern, dir)
		}
		files = append(files, found...)
	}
	return files
}

// batchInput is what is read of a line of a documented file.
type batchInput struct {
	CustomID string `json:"custom_id"`
	URL      string
	Body     struct {
		Model    string
		Input    json.RawMessage
		Messages []struct{ Content json.RawMessage }
	}
}

// asks is the text of its last message, if that is plain.
func (r batchInput) asks() (text string) {
	raw := r.Body.Input
	if n := len(r.Body.Messages); n > 0 {
		raw = r.Body.Messages[n-1].Content
	}
	_ = json.Unmarshal(raw, &text)
	return text
}

// compare holds the results of a file to the documented output of a batch: a
// line for each request, in its shape, with a body that the SDK understands.
func (d *desk) compare(t *testing.T, file string, named bool, results string) {
	t.Helper()
	all := map[string]batchInput{}
	for line := range strings.Lines(read(t, file)) {
		var r batchInput
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all[r.CustomID] = r
	}
	for line := range strings.Lines(results) {
		out := outputLine(t, line)
		r, ok := all[out.CustomID]
		if delete(all, out.CustomID); !ok {
			t.Errorf("a result of nobody, or a second one: %s", line)
			continue
		}
		model := "other"
		if named {
			model = r.Body.Model
		}
		if got := understood(t, r, out.Response.Body); got != model {
			t.Errorf("%s was answered by %q, want %q", r.CustomID, got, model)
		}
	}
	if len(all) > 0 {
		t.Errorf("no result for %v", slices.Collect(maps.Keys(all)))
	}
}

// batchOutput is a line of a batch's output file, as OpenAI's reference has it.
type batchOutput struct {
	ID       string
	CustomID string `json:"custom_id"`
	Response struct {
		StatusCode int    `json:"status_code"`
		RequestID  string `json:"request_id"`
		Body       json.RawMessage
	}
}

// outputLine reads a result, which has the documented fields and one more.
func outputLine(t *testing.T, line string) (out batchOutput) {
	t.Helper()
	var fields struct {
		all, Response map[string]json.RawMessage
	}
	for _, to := range []any{&fields, &fields.all, &out} {
		if err := json.Unmarshal([]byte(line), to); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(fields.all))); got != "[custom_id error id nightshift response]" {
		t.Errorf("a result has the fields %s", got)
	}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(fields.Response))); got != "[body request_id status_code]" {
		t.Errorf("a response has the fields %s", got)
	}
	if !strings.HasPrefix(out.ID, "batch_req_") || string(fields.all["error"]) != "null" || out.Response.StatusCode != 200 || out.Response.RequestID == "" {
		t.Errorf("a result of an answered request: %s", line)
	}
	return out
}

// understood has the official SDK read an answer, and returns its model.
func understood(t *testing.T, r batchInput, body []byte) (model string) {
	t.Helper()
	parse := func(to json.Unmarshaler) {
		if err := to.UnmarshalJSON(body); err != nil {
			t.Fatalf("the SDK does not read %s: %v", body, err)
		}
	}
	var text string
	switch url := "/v1/" + strings.TrimPrefix(strings.TrimPrefix(r.URL, "/"), "v1/"); url {
	case "/v1/chat/completions":
		var c openai.ChatCompletion
		parse(&c)
		if !c.JSON.ID.Valid() || !c.JSON.Created.Valid() || c.Object != "chat.completion" || len(c.Choices) != 1 || c.Choices[0].FinishReason != "stop" || c.Usage.TotalTokens == 0 {
			t.Fatalf("read of %s: %+v", body, c)
		}
		model, text = c.Model, c.Choices[0].Message.Content
	case "/v1/responses":
		var c responses.Response
		parse(&c)
		if !c.JSON.ID.Valid() || c.Object != "response" || c.Status != "completed" || c.Usage.TotalTokens == 0 {
			t.Fatalf("read of %s: %+v", body, c)
		}
		model, text = c.Model, c.OutputText()
	case "/v1/embeddings":
		var c openai.CreateEmbeddingResponse
		parse(&c)
		if c.Object != "list" || len(c.Data) != 1 || len(c.Data[0].Embedding) == 0 || c.Usage.PromptTokens == 0 {
			t.Fatalf("read of %s: %+v", body, c)
		}
		return c.Model
	default:
		t.Fatalf("what is read of %s?", url)
	}
	if asked := r.asks(); text == "" || asked != "" && !strings.Contains(text, asked) && !json.Valid([]byte(text)) {
		t.Errorf("%s asked %q and got %q", r.CustomID, asked, text)
	}
	return model
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
