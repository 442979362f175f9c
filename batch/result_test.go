package batch

import (
	"strings"
	"testing"
	"time"

	"nightshift/provider"
)

func TestResult_Encode(t *testing.T) {
	at := time.Date(2026, 3, 2, 1, 2, 3, 0, time.UTC)
	r := Result{
		ID: "batch_req_1", CustomID: "a<b",
		Response: &Response{200, "req-1", []byte("{\n \"content\": \"x < y\"\n}")},
		Nightshift: NightshiftInfo{
			Line: 7, Provider: "openai", Model: "openai/gpt-4o", Tier: "premium",
			Attempts:  []provider.Call{{Model: "openai/gpt-4o", Kind: provider.OK, StartedAt: at, LatencyMS: 5, Cost: 1250, RequestID: "req-1"}},
			Deferrals: 2, CostUSD: 1250, Request: "0123456789abcdef", FinishedAt: at,
		},
	}
	want := `{"id":"batch_req_1","custom_id":"a<b","response":{"status_code":200,"request_id":"req-1","body":{"content":"x < y"}},"error":null,` +
		`"nightshift":{"line":7,"provider":"openai","model":"openai/gpt-4o","tier":"premium","degraded":false,"cached":false,"output":null,` +
		`"attempts":[{"model":"openai/gpt-4o","kind":"ok","started_at":"2026-03-02T01:02:03Z","latency_ms":5,"cost_usd":0.00000125,"request_id":"req-1"}],` +
		`"deferrals":2,"usage":{"input_tokens":0,"output_tokens":0},"cost_usd":0.00000125,"metadata":null,"request":"0123456789abcdef","rehearsal":false,"finished_at":"2026-03-02T01:02:03Z"}}`
	got, err := r.Encode()
	if err != nil || string(got) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
	r = Result{Error: &ResultError{"batch_expired", "too late"}}
	got, err = r.Encode()
	for _, part := range []string{`"response":null`, `"error":{"code":"batch_expired","message":"too late"}`, `"attempts":[]`} {
		if err != nil || !strings.Contains(string(got), part) {
			t.Errorf("%s is not in %s, %v", part, got, err)
		}
	}
	r = Result{Response: &Response{StatusCode: 400, Body: []byte("<html>\xff\n</html>")}}
	if got, err = r.Encode(); err != nil || !strings.Contains(string(got), `"body":"<html>`) && !strings.Contains(string(got), `"body":"\u003chtml`) {
		t.Errorf("%s, %v", got, err)
	}
	for levels, quote := range map[int]string{1000: "", 1001: `"`} {
		r.Response.Body = []byte(nested(levels))
		if got, err = r.Encode(); err != nil || !strings.Contains(string(got), `"body":`+quote+"[[[") {
			t.Errorf("a body of %d levels: %.80s, %v", levels, got, err)
		}
	}
	if strings.Contains(string(got), "\n") {
		t.Errorf("a newline in %s", got)
	}
	if a, b := NewResultID(), NewResultID(); a == b || !strings.HasPrefix(a, "batch_req_") {
		t.Error(a, b)
	}
}
