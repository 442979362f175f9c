package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/config"
	"nightshift/internal/redistest"
)

// A Redis that still loads its data is there: it is waited for.
func TestConnectWaitsForARedisThatLoads(t *testing.T) {
	server := redistest.Start(t, "--key-load-delay", "400", "--loading-process-events-interval-bytes", "1024")
	rdb := server.Client(t)
	pipe := rdb.Pipeline()
	for i := range 10_000 { // 4 s
		pipe.Set(t.Context(), fmt.Sprint("k", i), "v", 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	logs := &lockedBuffer{}
	connected := make(chan error, 1)
	go func() { connected <- connectWhileItLoads(t.Context(), server.URL(), rdb, logs) }()
	server.Restart(t)
	if err := <-connected; err != nil {
		t.Error(err)
	}
	if !strings.Contains(logs.String(), "redis still loads its data") {
		t.Errorf("nobody was told: %s", logs)
	}
}

func connectWhileItLoads(ctx context.Context, url string, rdb *redis.Client, logs *lockedBuffer) error {
	for deadline := time.Now().Add(10 * time.Second); !redis.IsLoadingError(rdb.Ping(ctx).Err()); {
		if time.Now().After(deadline) {
			return fmt.Errorf("it never loaded")
		}
	}
	cfg, err := config.Parse("nightshift.yaml", fmt.Appendf(nil, "redis: {url: %q}\nproviders: {a: {base_url: \"http://127.0.0.1:1/v1\"}}\nmodels: {a/one: {}}\nladders: {l: {rungs: [{model: a/one}]}}\nqueues: {q: {ladder: l}}\n", url), nil)
	if err != nil {
		return err
	}
	c, err := Connect(ctx, cfg, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		return err
	}
	return c.Close()
}
