package breaker

import (
	"context"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

func BenchmarkMemoryAdmitReport(b *testing.B) {
	s := Settings{}.WithDefaults()
	m := NewMemory(func(Key) Settings { return s }, nil)
	benchAdmitReport(b, m)
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

// BenchmarkRedisAdmitReport reports, beside its time, how many times two PINGs
// on the same connection it takes: a call has two round trips.
func BenchmarkRedisAdmitReport(b *testing.B) {
	rdb := redistest.Client(b)
	s := Settings{}.WithDefaults()
	benchAdmitReport(b, NewRedis(rdb, func(Key) Settings { return s }))
	b.StopTimer()
	pair := b.Elapsed() / time.Duration(b.N)

	n := max(b.N, 2000)
	start := time.Now()
	for range 2 * n {
		if err := rdb.Ping(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
	}
	pings := time.Since(start) / time.Duration(n)
	b.ReportMetric(float64(pair)/float64(pings), "x-two-PINGs")
}

func benchAdmitReport(b *testing.B, s Store) {
	ctx := context.Background()
	key := Key{Provider: "openai", Model: "openai/gpt-4o"}
	b.ReportAllocs()
	for b.Loop() {
		t, err := s.Admit(ctx, key)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Report(ctx, t, Report{Outcome: Success}); err != nil {
			b.Fatal(err)
		}
	}
}
