package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/redistest"
	"nightshift/internal/scripttest"
	"nightshift/limit"
	"nightshift/provider"
)

// TestScripts runs testdata/script: the real main against a real Redis. Each
// script has in NIGHTSHIFT_REDIS_URL an empty database of its own.
func TestScripts(t *testing.T) {
	redis := redistest.Start(t, "--databases", "64")
	var databases atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireUniqueNames: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": scripttest.Exits, "calls": calls},
		Setup: func(e *testscript.Env) error {
			e.Setenv("NIGHTSHIFT_REDIS_URL", fmt.Sprintf("redis://%s/%d", redis.Addr, databases.Add(1)))
			e.Setenv("NIGHTSHIFT_PRODUCER", "tests")
			return nil
		},
	})
}

// calls counts calls of a producer, as workers do, by the limits of the script's
// nightshift.yaml: calls PRODUCER N USD. Those over a limit wait.
func calls(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: calls PRODUCER N USD")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	usd, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	cfg, err := config.Load(ts.MkAbs("nightshift.yaml"), config.WithoutKeys(), config.WithRedis(ts.Getenv("NIGHTSHIFT_REDIS_URL")))
	ts.Check(err)
	conn, err := app.Connect(context.Background(), cfg, slog.New(slog.DiscardHandler))
	ts.Check(err)
	defer conn.Close()
	for i := range n {
		id := fmt.Sprint(args[0], i)
		err := conn.Guard.Reserve(context.Background(), limit.Charge{
			Producer: args[0], Line: id, Ticket: rand.Text(), USD: int64(provider.Dollars(usd)), Always: args[0] == limit.System,
		})
		if over := (*limit.OverError)(nil); !errors.As(err, &over) {
			ts.Check(err)
		}
	}
}
