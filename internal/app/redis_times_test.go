package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"nightshift/config"
	"nightshift/internal/redistest"
)

// Every kind of request is counted once, for the connection that made it, and no
// other kind with it.
func TestRedisTimes(t *testing.T) {
	m, reg := newTestMetrics(t)
	cfg := &config.Config{Redis: config.Redis{URL: redistest.Start(t).URL()}}
	conn, err := connect(context.Background(), cfg, slog.New(slog.DiscardHandler), hooks{redis: m.redisHook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	rdb := conn.Redis.Breaker()
	askEverything(t, rdb) // connects, which is a few commands too
	for tries := 0; ; tries++ {
		before := redisCounts(t, reg, "breaker")
		askEverything(t, rdb)
		after := redisCounts(t, reg, "breaker")
		if after["connect"] > before["connect"] && tries < 5 {
			continue // the pool opened one more meanwhile
		}
		for kind, want := range map[string]uint64{"command": 1, "script": 2, "pipeline": 2} {
			if got := after[kind] - before[kind]; got != want {
				t.Errorf("%s: %d, want %d", kind, got, want)
			}
		}
		break
	}
	if n := redisCounts(t, reg, "breaker"); n["connect"] == 0 {
		t.Errorf("no connection was counted: %v", n)
	}
	if n := redisCounts(t, reg, "queue"); n["command"]+n["script"]+n["pipeline"] != 0 {
		t.Errorf("nothing was asked for an asynq server: %v", n)
	}
}

// askEverything sends one command, a script twice, a pipeline and a transaction.
func askEverything(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	ctx, script := context.Background(), redis.NewScript("return redis.call('GET', KEYS[1])")
	errs := []error{rdb.Set(ctx, "k", "v", 0).Err()}
	for range 2 {
		errs = append(errs, script.Run(ctx, rdb, []string{"k"}).Err())
	}
	two := func(p redis.Pipeliner) error { p.Get(ctx, "k"); p.Get(ctx, "k"); return nil }
	_, err := rdb.Pipelined(ctx, two)
	errs = append(errs, err)
	_, err = rdb.TxPipelined(ctx, two)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// redisCounts are the requests of a connection by kind.
func redisCounts(t *testing.T, reg prometheus.Gatherer, connection string) map[string]uint64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range families {
		if f.GetName() != redisDuration.Name {
			continue
		}
		for _, one := range f.GetMetric() {
			if labels := labelsOf(one); labels["connection"] == connection {
				counts[labels["kind"]] = one.GetHistogram().GetSampleCount()
			}
		}
	}
	return counts
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// What a request costs more for its time being taken.
func BenchmarkRedisTimes(b *testing.B) {
	times := newRedisTimes(redisDuration.histogram(redisBuckets), stateConnection)
	process := times.ProcessHook(func(context.Context, redis.Cmder) error { return nil })
	cmd := redis.NewCmd(context.Background(), "evalsha", "0123")
	b.ReportAllocs()
	for b.Loop() {
		_ = process(context.Background(), cmd)
	}
}
