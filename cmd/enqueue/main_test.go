package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"nightshift/internal/redistest"
	"nightshift/internal/scripttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"enqueue": main})
}

// patience bounds every wait of these tests; it is long because the machine may
// be slow, and nothing waits for it when all is well.
const patience = time.Minute

// TestScripts runs testdata/script: the real main against a real Redis, the real
// worker and its simulator. Each script has in its environment
//
//	REDIS  the URL of an empty Redis database of its own
//	SIM    a free address for `worker sim`
//
// and in its folder a nightshift.yaml whose models sim/large and sim/small are
// answered there. Its commands, beside testscript's own, are in scriptCommands.
func TestScripts(t *testing.T) {
	bin := build(t, "worker")
	redis := redistest.Start(t, "--databases", "64")
	var databases atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireUniqueNames: true, Cmds: scriptCommands,
		Setup: func(e *testscript.Env) error {
			sim, err := freeAddr()
			if err != nil {
				return err
			}
			e.Setenv("REDIS", fmt.Sprintf("redis://%s/%d", redis.Addr, databases.Add(1)))
			e.Setenv("SIM", sim)
			e.Setenv("NIGHTSHIFT_PRODUCER", "tests")
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			return os.WriteFile(filepath.Join(e.WorkDir, "nightshift.yaml"), []byte(configuration(sim)), 0o666)
		},
	})
}

func configuration(sim string) string {
	return strings.ReplaceAll(`providers:
  sim: {base_url: "http://SIM/v1"}
models:
  sim/large: {tier: premium, price: {input: 2.50, output: 10.00}}
  sim/small: {tier: economy}
ladders:
  nightly:
    rungs:
      - {model: sim/large, tries: 1}
      - {model: sim/small, tries: 1}
queues:
  overnight: {ladder: nightly, concurrency: 4, retries: 0}
breaker: {cooldown: 1s, max_cooldown: 2s}
worker: {shutdown_timeout: 10s}
`, "SIM", sim)
}

// build builds a command of this repository as the Makefile does, whose compiled
// packages it finds, and returns the folder it is in.
func build(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "nightshift/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return dir
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":     scripttest.Exits,
	"await":     await,
	"hook":      hook,
	"request":   request,
	"terminate": terminate,
	"reaches":   reaches,
}

// await waits until a URL answers: await URL
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await URL")
	}
	eventually(ts, args[0]+" answers", func() bool {
		resp, err := http.Get(args[0])
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// request tells a simulator something: request METHOD URL [BODY]
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: request METHOD URL [BODY]")
	}
	req, err := http.NewRequest(args[0], args[1], strings.NewReader(strings.Join(args[2:], " ")))
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		ts.Fatalf("%s %s: %s", args[0], args[1], resp.Status)
	}
}

// terminate sends SIGTERM to a command in the background: terminate NAME ARG
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: terminate NAME ARG")
	}
	for _, cmd := range ts.BackgroundCmds() {
		if filepath.Base(cmd.Args[0]) == args[0] && cmd.Args[1] == args[1] {
			ts.Check(cmd.Process.Signal(syscall.SIGTERM))
			return
		}
	}
	ts.Fatalf("no %s %s runs", args[0], args[1])
}

// reaches waits until a file has a number of lines: reaches FILE LINES
func reaches(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reaches FILE LINES")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	eventually(ts, fmt.Sprintf("%s has %d lines", args[0], want), func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && strings.Count(string(text), "\n") >= want
	})
}

func eventually(ts *testscript.TestScript, what string, holds func() bool) {
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s: %s", patience, what)
		}
	}
}
