package batch

import (
	"errors"
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
	if strings.Contains(string(got), "\n") {
		t.Errorf("a newline in %s", got)
	}
	if a, b := NewResultID(), NewResultID(); a == b || !strings.HasPrefix(a, "batch_req_") {
		t.Error(a, b)
	}
}

func TestScanResults(t *testing.T) {
	line := func(n int64, digest string, change func(*Result)) string {
		r := Result{ID: "batch_req_x", Response: &Response{StatusCode: 200}, Nightshift: NightshiftInfo{Line: n, Request: digest}}
		if change != nil {
			change(&r)
		}
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	whole := line(1, "d1", nil) + "\n" +
		line(2, "d2", func(r *Result) { r.Error = &ResultError{"x", "y"}; r.Response = nil }) + "\n" +
		line(3, "d3", func(r *Result) { r.Nightshift.Rehearsal = true }) + "\n" +
		line(4, "d4", func(r *Result) { r.Response.StatusCode = 400 }) + "\n" +
		line(5, "old", nil) + "\n" + line(5, "d5", nil) + "\n"
	s, err := ScanResults(strings.NewReader(whole+line(6, "d6", nil)[:40]), "out")
	if err != nil || s.End != int64(len(whole)) || !s.Torn || s.NoNewline || len(s.Lines) != 5 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, c := range []struct {
		n                 int64
		digest            string
		rehearsal, failed bool
		want              bool
	}{
		{1, "d1", false, false, true}, {1, "changed", false, false, false}, {2, "d2", false, false, true},
		{2, "d2", false, true, false}, {3, "d3", false, false, false}, {3, "d3", true, false, true},
		{4, "d4", false, true, false}, {5, "d5", false, true, true}, {6, "d6", false, false, false},
	} {
		if got := s.Done(Line{Number: c.n, Digest: c.digest}, c.rehearsal, c.failed); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	s, err = ScanResults(strings.NewReader(whole+line(6, "d6", nil)), "out")
	if err != nil || s.Torn || !s.NoNewline || len(s.Lines) != 6 {
		t.Errorf("a whole last line without a newline: %+v, %v", s, err)
	}
	for _, text := range []string{"hello", "hello\n", `{"a":1}` + "\n", whole + "x\n" + line(7, "d7", nil) + "\n"} {
		var le *LineError
		if _, err := ScanResults(strings.NewReader(text), "out"); !errors.As(err, &le) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	for _, text := range []string{"", "{", `{"id":"batch_req`} {
		if s, err := ScanResults(strings.NewReader(text), "out"); err != nil || s.End != 0 || s.Torn != (text != "") {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}
