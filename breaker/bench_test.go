package breaker

import (
	"context"
	"slices"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

func BenchmarkMemoryAdmitReport(b *testing.B) {
	s := Settings{}.WithDefaults()
	m := NewMemory(func(Key) Settings { return s }, nil)
	b.ReportAllocs()
	for b.Loop() {
		admitAndReport(b, m)
	}
}

func BenchmarkMemoryRejection(b *testing.B) {
	s := Settings{Window: 1}.WithDefaults()
	m := NewMemory(func(Key) Settings { return s }, nil)
	key := Key{Provider: "a", Model: "a/x"}
	tk, _ := m.Admit(b.Context(), key)
	_ = m.Report(b.Context(), tk, Report{Outcome: Failure})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Admit(context.Background(), key); err == nil {
			b.Fatal("admitted")
		}
	}
}

// BenchmarkRedisAdmitReport reports how many times two PINGs on the same
// connection an admission and a report take: a call has two round trips. The
// two alternate and their medians are compared, so that a busy machine slows
// both alike.
func BenchmarkRedisAdmitReport(b *testing.B) {
	rdb := redistest.Client(b)
	s := Settings{}.WithDefaults()
	store := NewRedis(rdb, func(Key) Settings { return s })
	var calls, pings []time.Duration
	for b.Loop() {
		start := time.Now()
		admitAndReport(b, store)
		mid := time.Now()
		for range 2 {
			if err := rdb.Ping(context.Background()).Err(); err != nil {
				b.Fatal(err)
			}
		}
		calls, pings = append(calls, mid.Sub(start)), append(pings, time.Since(mid))
	}
	slices.Sort(calls)
	slices.Sort(pings)
	call, ping := calls[len(calls)/2], pings[len(pings)/2]
	b.ReportMetric(float64(call), "admit+report-ns")
	b.ReportMetric(float64(call)/float64(ping), "x-two-PINGs")
}

func admitAndReport(b *testing.B, s Store) {
	ctx := context.Background()
	t, err := s.Admit(ctx, Key{Provider: "openai", Model: "openai/gpt-4o"})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Report(ctx, t, Report{Outcome: Success}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkClock(b *testing.B) { // what the memory store pays twice a call
	for b.Loop() {
		time.Now()
	}
}
