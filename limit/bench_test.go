package limit

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// callOnce is what a call costs: a reservation and its settlement.
func callOnce(b *testing.B, p Pacer, i int) {
	ctx, ticket := context.Background(), strconv.Itoa(i)
	slot, err := p.Reserve(ctx, Ask{Model: model, Ticket: ticket, Tokens: 500, Lease: time.Minute})
	if err != nil || slot.Verdict != Go {
		b.Fatalf("%+v, %v", slot, err)
	}
	if _, err := p.Settle(ctx, model, ticket, Result{Kind: Passed, Tokens: 400, Latency: time.Millisecond}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkMemory(b *testing.B) {
	m := NewMemory(nil, nil)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		callOnce(b, m, i)
	}
}

// BenchmarkRedis reports what the server spends on a script, in µs, beside the
// round trips: alone, under configured limits, and with calls in flight beside it.
func BenchmarkRedis(b *testing.B) {
	for name, c := range map[string]struct {
		limits  Limits
		beside  int
		learned bool
	}{
		"unknown":       {},
		"configured":    {limits: Limits{RPM: 9_000_000, TPM: 9_000_000_000, Concurrency: 1000}},
		"300 in flight": {limits: Limits{RPM: 9_000_000, TPM: 9_000_000_000, Concurrency: 1000}, beside: 300},
	} {
		b.Run(name, func(b *testing.B) {
			rdb := redistest.Client(b)
			r := NewRedis(rdb, func(Model) Limits { return c.limits })
			for i := range c.beside {
				if _, err := r.Reserve(b.Context(), Ask{Model: model, Ticket: "beside" + strconv.Itoa(i)}); err != nil {
					b.Fatal(err)
				}
			}
			rdb.ConfigResetStat(b.Context())
			i := 0
			for b.Loop() {
				i++
				callOnce(b, r, i)
			}
			stats, err := rdb.InfoMap(b.Context(), "commandstats").Result()
			if err != nil {
				b.Fatal(err)
			}
			for part := range strings.SplitSeq(stats["Commandstats"]["cmdstat_evalsha"], ",") {
				if v, ok := strings.CutPrefix(part, "usec_per_call="); ok {
					us, _ := strconv.ParseFloat(v, 64)
					b.ReportMetric(us, "server-µs/script")
				}
			}
		})
	}
}
