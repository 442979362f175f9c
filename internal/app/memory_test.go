package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"nightshift/config"
	"nightshift/internal/redistest"
)

func connTo(t *testing.T, redis *redistest.Server) *Conn {
	t.Helper()
	conn, err := Connect(t.Context(), checkConfig(t, redis.URL(), "http://127.0.0.1:1/v1"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAWorkerRefusesARedisThatEvicts(t *testing.T) {
	redis := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	_, err := New(t.Context(), checkConfig(t, redis.URL(), "http://127.0.0.1:1/v1"), Options{Worker: true, Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, ErrEvicts) || !strings.Contains(err.Error(), `maxmemory-policy is "allkeys-lru"`) || !strings.Contains(err.Error(), "set it to noeviction") {
		t.Errorf("got %v", err)
	}
}

func TestAWorkerWarnsOfARedisThatForgets(t *testing.T) {
	for want, args := range map[string][]string{
		"no append-only file and no snapshots": nil,
		"snapshots alone":                      {"--save", "3600 1"},
		"if it makes any":                      {"--rename-command", "CONFIG", ""},
		"":                                     {"--appendonly", "yes"},
	} {
		var log bytes.Buffer
		if err := connTo(t, redistest.Start(t, args...)).checkServer(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		if got := log.String(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%v: warned %q, want %q", args, got, want)
		}
	}
}

// Near the limit nothing is submitted; at the limit every error names the remedy,
// of a single command, a script and a pipeline; below it all is as before.
func TestMemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "20mb")
	conn, raw, ctx := connTo(t, server), server.Client(t), context.Background()
	if err := conn.CheckRoom(ctx, 0); err != nil {
		t.Fatalf("an empty Redis: %v", err)
	}
	if err := conn.CheckRoom(ctx, 18<<20); !strings.Contains(fmt.Sprint(err), "no room for 18.0 MiB") {
		t.Errorf("a batch that does not fit: %v", err)
	}
	piece := strings.Repeat("x", 1<<20)
	var full *NoRoomError
	for i := 0; full == nil; i++ {
		if err := raw.RPush(ctx, "filler", piece).Err(); err != nil {
			t.Fatalf("it was full before it had no room: %v", err)
		}
		if err := conn.CheckRoom(ctx, 0); err != nil && !errors.As(err, &full) {
			t.Fatal(err)
		}
	}
	if full.Limit != 20<<20 || full.Used <= 18<<20 || !strings.Contains(full.Error(), "of its maxmemory of 20.0 MiB") {
		t.Errorf("got %v", full)
	}
	if err := raw.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil { // it is full now, for certain
		t.Fatal(err)
	}
	_, piped := conn.state.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "filled")
		p.Set(ctx, "a", "b", 0)
		return nil
	})
	for name, err := range map[string]error{
		"command": conn.state.Set(ctx, "a", "b", 0).Err(), "pipeline": piped,
		"script": conn.state.Eval(ctx, "return redis.call('SET', KEYS[1], 'b')", []string{"a"}).Err(),
	} {
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "raise maxmemory, or delete batches") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := conn.state.Get(ctx, "filled").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a read: %v", err)
	}
}

func TestAnEmbeddedRedisHasRoom(t *testing.T) {
	cfg := checkConfig(t, "embedded", "http://127.0.0.1:1/v1")
	cfg.Redis = config.Redis{URL: "embedded"}
	conn, err := Connect(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := errors.Join(conn.CheckRoom(t.Context(), 1<<40), conn.checkServer(t.Context(), slog.New(slog.DiscardHandler))); err != nil {
		t.Error(err)
	}
}
