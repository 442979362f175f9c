package sim_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"nightshift/internal/sim"
)

func TestHiddenLimit(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Limit: sim.Limit{RPM: 60, Burst: 3, RetryAfter: sim.RetryMS}}})
	admitted := func() (n int) {
		for range 5 {
			if b.status("m") == 200 {
				n++
			}
		}
		return n
	}
	if n := admitted(); n != 3 {
		t.Errorf("%d calls at once, want the burst of 3", n)
	}
	if r := b.call("m", "x"); r.Status != 429 || r.Header.Get("retry-after-ms") != "1000" {
		t.Errorf("got %+v, want to wait a second", r)
	}
	b.clock.set(2 * time.Second)
	if n := admitted(); n != 2 {
		t.Errorf("%d calls after two seconds, want 2", n)
	}
	b.clock.set(time.Hour)
	if n := admitted(); n != 3 {
		t.Errorf("%d calls after an hour, want the burst of 3", n)
	}
}

// admitted is how many of n calls at one moment are answered.
func (b *bundle) admitted(n int) (answered int) {
	for range n {
		if b.status("m") == 200 {
			answered++
		}
	}
	return answered
}

func TestLimitChanges(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Limit: sim.Limit{
		RPM: 600, Burst: 100, Steps: []sim.Step{{From: 10 * time.Second, RPM: 300}, {From: 20 * time.Second, RPM: 600, Burst: 5}},
	}}})
	for _, step := range []struct {
		at   time.Duration
		want int
	}{
		{0, 100},
		{5 * time.Second, 50},
		{10 * time.Second, 50}, // what is counted until then is counted by the old limit
		{12 * time.Second, 10},
		{18 * time.Second, 30},
		{20*time.Second + 200*time.Millisecond, 5}, // the new burst
		{20*time.Second + 400*time.Millisecond, 2},
	} {
		b.clock.set(step.at)
		if got := b.admitted(120); got != step.want {
			t.Errorf("%d calls at %v, want %d", got, step.at, step.want)
		}
	}
}

func TestLimitOfCallsInFlight(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{
		Limit:  sim.Limit{InFlight: 2, RetryAfter: sim.RetrySeconds},
		Faults: []sim.Fault{{Kind: sim.Stall, LastCall: 2}},
	}})
	ctx, leave := context.WithCancel(t.Context())
	for range 2 {
		defer b.begin(ctx).Close()
	}
	if r := b.call("m", "x"); r.Status != 429 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("got %+v of a third call, want a refusal", r)
	}
	leave()
	waitFor(t, "the calls to end", func() bool { return b.Counts().InFlight == 0 })
	if status := b.status("m"); status != 200 {
		t.Errorf("status %d when there is room again", status)
	}
}

// begin makes a call and returns when its response has begun.
func (b *bundle) begin(ctx context.Context) io.Closer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", b.URL()+"/chat/completions", strings.NewReader(request))
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.Body
}

func TestLimitIsToldInEveryForm(t *testing.T) {
	tests := map[sim.Headers]map[string]string{
		sim.HeadersOpenAI: {
			"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s",
		},
		sim.HeadersAnthropic: {
			"anthropic-ratelimit-requests-limit": "60", "anthropic-ratelimit-requests-remaining": "0",
			"anthropic-ratelimit-requests-reset": time.Unix(1_770_000_002, 0).UTC().Format(time.RFC3339),
		},
		sim.HeadersIETF: {"ratelimit-policy": `"default";q=60;w=60`, "ratelimit": `"default";r=0;t=2`},
		sim.HeadersNone: {"x-ratelimit-limit-requests": "", "ratelimit": ""},
	}
	for form, want := range tests {
		b := setup(t, sim.Script{Default: sim.Behaviour{Limit: sim.Limit{RPM: 60, Burst: 2, Headers: form}}})
		for _, status := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			r := b.call("m", "x")
			if r.Status != status {
				t.Fatalf("%s: got %+v, want status %d", form, r, status)
			}
			if b.Counts().Calls == 1 {
				continue
			}
			for name, value := range want {
				if got := r.Header.Get(name); got != value {
					t.Errorf("%s: %s is %q at a %d, want %q", form, name, got, status, value)
				}
			}
		}
	}
}
