package provider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestCorpusOfAnthropic covers cases 17, 18, 19 and 21 for the Messages API:
// what every known response means.
func TestCorpusOfAnthropic(t *testing.T) {
	for name, e := range corpusOf(t, "anthropic") {
		t.Run(name, func(t *testing.T) {
			answer, refusal := readMessage(e.Status, e.Headers.header(), e.body(), noon)
			if refusal != nil {
				checkRefusal(t, e, refusal)
				return
			}
			if e.Want.Kind != OK {
				t.Fatalf("an answer, want %s: %s", e.Want.Kind, answer.Body)
			}
			if answer.StatusCode != e.Status || answer.RequestID != e.Want.RequestID || answer.FinishReason != e.Want.Finish {
				t.Errorf("got %d, %q, %q", answer.StatusCode, answer.RequestID, answer.FinishReason)
			}
			checkUsage(t, e, answer.Usage)
		})
	}
}

// Every kind of a call's outcome that a response can have is in the corpus.
func TestCorpusOfAnthropicHasEveryKind(t *testing.T) {
	seen := map[Kind]bool{}
	for _, e := range corpusOf(t, "anthropic") {
		seen[e.Want.Kind] = true
	}
	for _, k := range []Kind{OK, Unavailable, RateLimited, QuotaExhausted, Misconfigured, InvalidRequest, ContextExceeded, ContentFiltered} {
		if !seen[k] {
			t.Errorf("no response that is %s", k)
		}
	}
}

func TestCorpusOfAnthropicNeedsEveryRule(t *testing.T) {
	used := map[int]bool{}
	for _, e := range corpusOf(t, "anthropic") {
		s, _ := readAnthropicSignal(e.Status, e.body())
		for i, r := range anthropicRules {
			if r.takes(s) {
				used[i] = true
				break
			}
		}
	}
	for i, r := range anthropicRules {
		if !used[i] {
			t.Errorf("rule %d (%s, %v, %v %v) decides about nothing", i, r.kind, r.statuses, r.names, r.words)
		}
	}
}

// No message quotes the provider, who may quote the prompt or the key.
func TestAnthropicMessageIsOurOwn(t *testing.T) {
	for name, e := range corpusOf(t, "anthropic") {
		if e.Body == nil {
			continue
		}
		var v any
		if err := json.Unmarshal(e.Body, &v); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(poison(v, "`canary` CANARY the patient's name is Doe"))
		if err != nil {
			t.Fatal(err)
		}
		_, refusal := readMessage(e.Status, http.Header{}, body, noon)
		if refusal == nil {
			continue
		}
		refusal.Body, refusal.RequestID = nil, ""
		seen, _ := json.Marshal(refusal)
		if text := strings.ToLower(string(seen) + refusal.Error()); strings.Contains(text, "canary") || strings.Contains(text, "sk-secret") {
			t.Errorf("%s: the error holds the provider's text: %s", name, text)
		}
	}
}

func FuzzReadMessage(f *testing.F) {
	for _, e := range corpusOf(f, "anthropic") {
		f.Add(e.Status, e.body())
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		answer, refusal := readMessage(status, http.Header{}, body, noon)
		if refusal == nil {
			if status < 200 || status > 299 || !json.Valid(answer.Body) {
				t.Fatalf("status %d and %q passed for an answer: %s", status, body, answer.Body)
			}
			return
		}
		if refusal.Kind == "" || refusal.Kind == OK || refusal.Message == "" || strings.ContainsAny(refusal.Message, "\n\r") {
			t.Fatalf("%+v", refusal)
		}
	})
}
