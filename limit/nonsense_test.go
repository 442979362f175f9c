package limit

import (
	"context"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/internal/redistest"
)

// Whatever callers, providers and clocks say, the configured limits hold, and the
// fleet never stops for good.
func TestNonsenseNeitherOpensNorStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1_750_000_000_000)
		m := NewMemory(func(Model) Limits { return Limits{RPM: 60, Concurrency: 4} }, func() time.Time { return now })
		var went []time.Time
		inFlight := map[string]bool{}
		ask := func(ticket string, a Ask) Verdict {
			a.Model, a.Ticket = model, ticket
			if a.Lease = max(a.Lease, 0); a.Lease < time.Hour {
				a.Lease = 24 * time.Hour // a lease that ends is a slot that is free
			}
			s, _ := m.Reserve(context.Background(), a)
			if s.Verdict == Go && !inFlight[ticket] {
				inFlight[ticket] = true
				went = append(went, now)
			}
			return s.Verdict
		}
		for _, mv := range genLives.Draw(t, "life") {
			now = now.Add(max(mv.Later, 0))
			ticket := strconv.Itoa(mv.Ticket)
			switch mv.Op {
			case "reserve":
				ask(ticket, mv.Ask)
			case "settle":
				mv.Result.Alone = false
				_, _ = m.Settle(context.Background(), model, ticket, mv.Result)
				delete(inFlight, ticket)
			case "park":
				_, _ = m.Park(context.Background(), model, mv.Ask.Lane, mv.Result.RetryAfter)
			case "restart":
				_ = m.Restart(context.Background(), model)
			}
			if len(inFlight) > 4 {
				t.Fatalf("%d in flight", len(inFlight))
			}
		}
		for i := range went {
			if j := i + 61; j < len(went) && went[j].Sub(went[i]) < 59*time.Second {
				t.Fatalf("62 calls in %s", went[j].Sub(went[i]))
			}
		}
		for ticket := range inFlight {
			_, _ = m.Settle(context.Background(), model, ticket, Result{Kind: Passed})
		}
		for i := 0; ask("last", Ask{Patience: 24 * time.Hour}) != Go; i++ {
			if now = now.Add(time.Second); i > 2*3600 {
				t.Fatalf("stopped for good: %+v", m.states[model].numbers)
			}
		}
	})
}

// Keys that Redis loses, one or all, and records that somebody damaged, stop
// nobody, and the counts are right again after a lease.
func TestLostAndDamagedKeys(t *testing.T) {
	for name, harm := range map[string]func(*Redis, []string){
		"all":     func(r *Redis, keys []string) { r.rdb.Del(context.Background(), keys...) },
		"numbers": func(r *Redis, keys []string) { r.rdb.Del(context.Background(), keys[0]) },
		"places":  func(r *Redis, keys []string) { r.rdb.Del(context.Background(), keys[1]) },
		"ends":    func(r *Redis, keys []string) { r.rdb.Del(context.Background(), keys[2]) },
		"damaged": func(r *Redis, keys []string) {
			r.rdb.HSet(context.Background(), keys[0], "pace", "1 2 three", "learned", "NaN", "park:", "x", "t:a", "?", "t:b", "p")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &paced{T: t, now: time.UnixMilli(1_750_000_000_000), limits: Limits{Concurrency: 2}}
			r := NewRedis(redistest.Client(t), func(Model) Limits { return p.limits })
			r.now = func() string { return strconv.FormatInt(p.clock().UnixMilli(), 10) }
			p.Pacer = r
			p.goes("a")
			p.goes("b")
			p.waits("c", ReasonConcurrency)
			harm(r, paceKeys(model))
			p.ask(Ask{Ticket: "c"})
			p.ends("a", Result{Kind: Passed})
			p.ends("b", Result{Kind: Passed})
			p.list()
			p.pass(11 * time.Minute)
			p.goes("d")
			p.goes("e")
			p.waits("f", ReasonConcurrency)
			if l := p.list(); l.InFlight != 2 || l.Waiting != 1 {
				t.Errorf("%+v", l)
			}
		})
	}
}
