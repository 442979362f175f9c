package tasks

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/ladder"
	"nightshift/provider"
)

var keyA = breaker.Key{Provider: "sim", Model: "sim/a"}

// probed is a worker whose breakers, in the same Redis, are probed by lines. It
// is also the adapter of the one model.
type probed struct {
	*rig
	breakers *breaker.Redis
	refuses  bool // a prompt of ours

	mu   sync.Mutex
	sent []string    // what was called: a line's ID, or "prompt"
	at   []time.Time // when
}

// setupProbed has n lines, of which the given may be a probe, wait for model a.
func setupProbed(t *testing.T, n int64, refuses bool, safe ...int64) *probed {
	p := &probed{rig: newRig(t, batch.Options{}), refuses: refuses}
	p.breakers = breaker.NewRedis(p.client(3), func(breaker.Key) breaker.Settings {
		return breaker.Settings{TaskProbes: true, MaxCooldown: time.Minute}
	})
	p.open(time.Hour)
	var file bytes.Buffer
	for i := range n {
		fmt.Fprintf(&file, `{"id":"line %d","prompt":"line %d.","probe_safe":%t}`+"\n", i+1, i+1, slices.Contains(safe, i+1))
	}
	d := batch.Description{ID: "b", Producer: "p", Queue: "q", CreatedAt: time.Now()}
	if err := p.submitFile(d, file.Bytes()); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	return p
}

// open holds the breaker open for so long; then it is due.
func (p *probed) open(long time.Duration) {
	p.t.Helper()
	if err := p.breakers.Force(context.Background(), keyA, breaker.Force{Action: breaker.ForceOpen, For: long}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *probed) start(t *testing.T) {
	t.Helper()
	models := map[string]config.Model{"sim/a": {Key: "sim/a", Provider: "sim", Name: "a", FirstToken: 10 * time.Second}}
	callers := map[string]ladder.Caller{"sim/a": p}
	prober, err := ladder.NewProber(ladder.ProberOptions{Models: models, Callers: callers, Gate: gateOf(p.breakers)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ladder.New(ladder.Options{
		Ladder: config.Ladder{Name: "l", Rungs: []config.Rung{{Model: "sim/a", Tries: 1}}},
		Models: models, Callers: callers, Gate: gateOf(p.breakers), Prober: prober,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.worker(l.Attempt, func(o *Options) {
		o.Breakers = BreakerKeys{Store: p.breakers, Keys: map[string]breaker.Key{"sim/a": keyA}}
	})
}

// Call implements ladder.Caller.
func (p *probed) Call(_ context.Context, r provider.Request) (provider.Answer, error) {
	_, text, _ := strings.Cut(string(r.Body), `"line `)
	number, _, isLine := strings.Cut(text, ".")
	what := "prompt"
	if isLine {
		what = number
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, what)
	p.at = append(p.at, time.Now())
	if !isLine && p.refuses {
		return provider.Answer{}, &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Message: "too small"}
	}
	return provider.Answer{StatusCode: 200, Body: []byte(`{"choices":[{}]}`)}, nil
}

// deferred waits until all lines do, and returns when the first comes back by itself.
func (p *probed) deferred(n int) time.Time {
	p.t.Helper()
	var first time.Time
	p.until(20*time.Second, "all lines wait", func() bool {
		out, err := p.store.Out(context.Background(), "b")
		first = time.Time{}
		for _, e := range out {
			if e.Wait.Open == "" {
				return false
			}
			if first.IsZero() || e.Wait.Until.Before(first) {
				first = e.Wait.Until
			}
		}
		return err == nil && len(out) == n
	})
	return first
}

// check has the breaker due once all lines wait, waits for the results, and holds
// what was called first to want. The rest is every other line, once.
func (p *probed) check(n int, want ...string) {
	p.t.Helper()
	back := p.deferred(n)
	p.open(time.Millisecond)
	if s := p.done("b", 60*time.Second); s.Succeeded != int64(n) {
		p.t.Errorf("status: %+v", s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	prompts := 0
	for _, w := range p.sent {
		if w == "prompt" {
			prompts++
		}
	}
	if !slices.Equal(p.sent[:len(want)], want) || len(p.sent) != n+prompts || prompts > 1 {
		p.t.Errorf("called %v, want first %v and then each other line once", p.sent, want)
	}
	if !p.at[0].Before(back) {
		p.t.Errorf("the probe was sent at %s; the first line came back by itself at %s", p.at[0], back)
	}
}

func TestALineThatMayBeTheProbeIsWoken(t *testing.T) {
	t.Parallel()
	setupProbed(t, 6, false, 4).check(6, "4")
}

func TestLinesThatMustNotBeTheProbeHaveOneSent(t *testing.T) {
	t.Parallel()
	setupProbed(t, 4, false).check(4, "prompt")
}

func TestLinesThatMustNotBeTheProbeDoNotWaitForEver(t *testing.T) {
	t.Parallel()
	p := setupProbed(t, 1, true)
	p.check(1, "prompt", "1")
}
