package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// patience bounds every wait; nothing waits for it when all is well.
const patience = 2 * time.Minute

// TestEndToEnd sends 200 lines through a real worker on a real Redis to an HTTP
// provider that this project did not write, mock-llm, which answers with the
// last message. Every line comes back once, with the answer to its own question,
// and the provider was called 200 times.
func TestEndToEnd(t *testing.T) {
	const lines = 200
	provider, calls := counting(t, foreignProvider(t))
	dir, redis := t.TempDir(), redistest.Start(t)
	env := append(os.Environ(), "NIGHTSHIFT_REDIS_URL="+redis.URL(), "PATH="+build(t, "enqueue")+":"+os.Getenv("PATH"))
	write(t, filepath.Join(dir, "nightshift.yaml"), `
providers:
  mock: {base_url: "`+provider+`/v1"}
models:
  mock/echo: {}
ladders:
  nightly:
    rungs:
      - {model: mock/echo}
queues:
  overnight: {ladder: nightly, concurrency: 10}
`)
	var requests strings.Builder
	for i := range lines {
		if i%2 == 0 {
			fmt.Fprintf(&requests, `{"custom_id":"line-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini","messages":[{"role":"user","content":"question %d"}]}}`+"\n", i, i)
		} else {
			fmt.Fprintf(&requests, `{"id":"line-%d","prompt":"question %d"}`+"\n", i, i)
		}
	}
	write(t, filepath.Join(dir, "in.jsonl"), requests.String())

	worker := command(dir, env, "worker", "run", "--metrics=127.0.0.1:0")
	log := &bytes.Buffer{}
	worker.Stderr = log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill() })

	id := strings.TrimSpace(output(t, command(dir, env, "enqueue", "batch", "--ignore-model", "in.jsonl")))
	output(t, command(dir, env, "enqueue", "watch", id))
	results := output(t, command(dir, env, "enqueue", "results", id))

	checkAnswers(t, results, lines)
	if n := calls.Load(); n != lines {
		t.Errorf("the provider was called %d times for %d lines", n, lines)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker, told to stop: %v\n%s", err, log)
	}
}

// checkAnswers looks for one result of each line, with its own answer.
func checkAnswers(t *testing.T, results string, lines int) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(results) {
		var r struct {
			CustomID string `json:"custom_id"`
			Response struct {
				StatusCode int `json:"status_code"`
				Body       struct {
					Choices []struct{ Message struct{ Content string } }
				}
			}
			Error any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("result %q: %v", line, err)
		}
		if seen[r.CustomID] {
			t.Errorf("%s has two results", r.CustomID)
		}
		seen[r.CustomID] = true
		number := strings.TrimPrefix(r.CustomID, "line-")
		if r.Response.StatusCode != 200 || r.Error != nil || len(r.Response.Body.Choices) != 1 ||
			r.Response.Body.Choices[0].Message.Content != "question "+number {
			t.Errorf("%s: %s", r.CustomID, line)
		}
	}
	for i := range lines {
		if id := fmt.Sprintf("line-%d", i); !seen[id] {
			t.Errorf("%s has no result", id)
		}
	}
	if len(seen) != lines {
		t.Errorf("%d results, want %d", len(seen), lines)
	}
}

// foreignProvider installs mock-llm from the npm registry, by the lock file in
// testdata/provider, and starts it. It returns its address.
func foreignProvider(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("npm is not installed; install it with: apt-get install -y nodejs npm (or run: make deps)")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/provider")); err != nil {
		t.Fatal(err)
	}
	output(t, command(dir, os.Environ(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"))
	addr := redistest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	server := command(dir, append(os.Environ(), "HOST="+host, "PORT="+port), "node", "node_modules/@dwmkerr/mock-llm/dist/main.js")
	log := &bytes.Buffer{}
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("mock-llm said:\n%.4000s", log)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/health")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return "http://" + addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("mock-llm does not answer: %v", err)
		}
	}
}

// counting passes requests on to a provider and counts the calls.
func counting(t *testing.T, target string) (addr string, calls *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	calls = &atomic.Int64{}
	proxy := httputil.NewSingleHostReverseProxy(u)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// build builds a command of this repository as the Makefile does, whose compiled
// packages it finds, and returns the folder it is in.
func build(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "nightshift/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	output(t, cmd)
	return dir
}

// command is a command in a folder, found by the PATH of its environment.
func command(dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/usr/bin/env", append([]string{name}, args...)...)
	cmd.Dir, cmd.Env = dir, env
	return cmd
}

// output runs a command and returns its standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
