package provider

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entry is one response of testdata, as a provider sent it.
type entry struct {
	Endpoint string          `json:"endpoint"` // "": the chat completions
	Status   int             `json:"status"`
	Headers  fields          `json:"headers"`
	Body     json.RawMessage `json:"body"` // a JSON body
	Text     string          `json:"text"` // any other
	Want     struct {
		Kind         Kind    `json:"kind"`
		Scope        Scope   `json:"scope"`
		Type         *string `json:"type"`
		Code         *string `json:"code"`
		Parameter    string  `json:"parameter"`
		Tier         bool    `json:"tier"`
		RequestID    string  `json:"request_id"`
		RetryAfterMS *int64  `json:"retry_after_ms"`
		Usage        []int64 `json:"usage"` // input, cached, output
		Finish       string  `json:"finish"`
	} `json:"want"`
}

// fields are those of a header.
type fields map[string]string

func (f fields) header() http.Header {
	h := http.Header{}
	for name, value := range f {
		h.Set(name, value)
	}
	return h
}

func (e entry) body() []byte {
	if e.Body != nil {
		return e.Body
	}
	return []byte(e.Text)
}

// ask turns a request to the entry's endpoint.
func (e entry) ask(r Request) Request {
	if e.Endpoint != "" {
		r.Endpoint, r.Body = e.Endpoint, bodies[e.Endpoint]
	}
	return r
}

// corpus reads every entry of the OpenAI family, by its name.
func corpus(t testing.TB) map[string]entry { return corpusOf(t, "openai") }

func corpusOf(t testing.TB, family string) map[string]entry {
	t.Helper()
	files, err := filepath.Glob("testdata/" + family + "/*.json")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d entries in the corpus: %v", len(files), err)
	}
	all := map[string]entry{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var e entry
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = e
	}
	return all
}

// TestCorpus covers cases 17, 18, 19 and 21: what every known response means.
func TestCorpus(t *testing.T) {
	for name, e := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			answer, refusal := familyOf(&parcel{endpoint: e.Endpoint}).read(e.Status, e.Headers.header(), e.body(), noon)
			if refusal != nil {
				checkRefusal(t, e, refusal)
				return
			}
			if e.Want.Kind != OK {
				t.Fatalf("an answer, want %s", e.Want.Kind)
			}
			if string(answer.Body) != string(e.body()) || answer.StatusCode != e.Status || answer.RequestID != e.Want.RequestID {
				t.Errorf("got %d, %q, %s", answer.StatusCode, answer.RequestID, answer.Body)
			}
			if e.Want.Finish != "" && answer.FinishReason != e.Want.Finish {
				t.Errorf("finish reason %q, want %q", answer.FinishReason, e.Want.Finish)
			}
			checkUsage(t, e, answer.Usage)
		})
	}
}

func checkRefusal(t *testing.T, e entry, got *Error) {
	t.Helper()
	w := e.Want
	if got.Kind != w.Kind || got.Scope != w.Scope || got.Parameter != w.Parameter {
		t.Errorf("got %s %q parameter %q, want %s %q parameter %q", got.Kind, got.Scope, got.Parameter, w.Kind, w.Scope, w.Parameter)
	}
	if got.Tier != w.Tier {
		t.Errorf("the tier's alone: %t", got.Tier)
	}
	if w.Type != nil && got.Type != *w.Type {
		t.Errorf("type %q, want %q", got.Type, *w.Type)
	}
	if w.Code != nil && got.Code != *w.Code {
		t.Errorf("code %q, want %q", got.Code, *w.Code)
	}
	if ms := got.RetryAfter.Milliseconds(); w.RetryAfterMS != nil && ms != *w.RetryAfterMS {
		t.Errorf("retry after %d ms, want %d", ms, *w.RetryAfterMS)
	}
	if w.RequestID != "" && got.RequestID != w.RequestID {
		t.Errorf("request ID %q, want %q", got.RequestID, w.RequestID)
	}
	if got.StatusCode != e.Status || string(got.Body) != string(e.body()) || got.Message == "" {
		t.Errorf("status %d, message %q, body %s", got.StatusCode, got.Message, got.Body)
	}
	checkUsage(t, e, got.Usage)
}

func checkUsage(t *testing.T, e entry, got Usage) {
	t.Helper()
	if w := e.Want.Usage; w != nil && got != (Usage{w[0], w[1], w[2]}) {
		t.Errorf("usage %+v, want %v", got, w)
	}
}

// Every row of the table decides about some response of the corpus: a row that
// none needs is a guess, or hidden by one before it.
func TestCorpusNeedsEveryRule(t *testing.T) {
	used := map[int]bool{}
	for _, e := range corpus(t) {
		s := readSignal(e.Status, e.body())
		for i, r := range rules {
			if r.takes(s) {
				used[i] = true
				break
			}
		}
	}
	for i, r := range rules {
		if !used[i] {
			t.Errorf("rule %d (%s, %v, %v %v) decides about nothing", i, r.kind, r.statuses, r.names, r.words)
		}
	}
}

// No message quotes the provider, who may quote the prompt or the key.
func TestMessageIsOurOwn(t *testing.T) {
	const canary = "CANARY the patient's name is Doe"
	for name, e := range corpus(t) {
		if e.Body == nil {
			continue
		}
		var v any
		if err := json.Unmarshal(e.Body, &v); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(poison(v, canary))
		if err != nil {
			t.Fatal(err)
		}
		_, refusal := readResponse(e.Status, http.Header{}, body, noon)
		if refusal == nil {
			continue
		}
		refusal.Body = nil
		seen, _ := json.Marshal(refusal)
		if text := string(seen) + refusal.Error(); strings.Contains(text, "CANARY") || strings.Contains(text, "sk-secret") {
			t.Errorf("%s: the error holds the provider's text: %s", name, text)
		}
	}
}

// poison adds the canary to every text below v, and sets codes to a key.
func poison(v any, canary string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = poison(x, canary)
		}
		if _, ok := v["code"]; ok {
			v["code"] = "sk-secret"
		}
		return v
	case []any:
		for i, x := range v {
			v[i] = poison(x, canary)
		}
		return v
	case string:
		return v + " " + canary
	}
	return v
}

func TestKeptBodyIsBounded(t *testing.T) {
	body := `{"error":{"message":"` + strings.Repeat("x", 200_000) + `","code":"model_not_found"}}`
	_, refusal := readResponse(404, http.Header{}, []byte(body), noon)
	if len(refusal.Body) != maxKeptBody || refusal.Scope != ScopeModel || refusal.Code != "model_not_found" {
		t.Errorf("%d bytes kept, scope %q, code %q", len(refusal.Body), refusal.Scope, refusal.Code)
	}
}

func TestAnswerNestedTooDeepIsUnavailable(t *testing.T) {
	for levels, want := range map[int]Kind{999: OK, 1000: Unavailable} {
		extra := `{"x":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `,"quoted":"` + strings.Repeat("[", 2000) + `",`
		_, refusal := readResponse(200, http.Header{}, []byte(strings.Replace(okBody, "{", extra, 1)), noon)
		got := OK
		if refusal != nil {
			got = refusal.Kind
		}
		if got != want {
			t.Errorf("%d levels: %s, want %s", levels, got, want)
		}
	}
}

func FuzzReadResponse(f *testing.F) {
	for _, e := range corpus(f) {
		f.Add(e.Status, e.body())
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		answer, refusal := readResponse(status, http.Header{}, body, time.Now())
		if refusal == nil {
			if status < 200 || status > 299 || !json.Valid(answer.Body) {
				t.Fatalf("status %d and %q passed for an answer", status, body)
			}
			return
		}
		if refusal.Kind == "" || refusal.Kind == OK || refusal.Message == "" || strings.ContainsAny(refusal.Message, "\n\r") {
			t.Fatalf("%+v", refusal)
		}
	})
}
