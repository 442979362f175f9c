package main

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"nightshift/internal/redistest"
	"nightshift/internal/scripttest"
)

// TestScripts runs testdata/script: the real main against a real Redis. Each
// script has in NIGHTSHIFT_REDIS_URL an empty database of its own.
func TestScripts(t *testing.T) {
	redis := redistest.Start(t, "--databases", "64")
	var databases atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireUniqueNames: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": scripttest.Exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("NIGHTSHIFT_REDIS_URL", fmt.Sprintf("redis://%s/%d", redis.Addr, databases.Add(1)))
			e.Setenv("NIGHTSHIFT_PRODUCER", "tests")
			return nil
		},
	})
}
