package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightshift/internal/redistest"
	"nightshift/internal/sim"
)

// runner is `enqueue run` as a process of its own, in a folder with a file of
// requests, in.jsonl, and the simulator's configuration.
type runner struct {
	bin, dir string
	sim      *sim.Server
	env      []string
}

func newRunner(t *testing.T, lines int, script sim.Script, env ...string) *runner {
	t.Helper()
	s := sim.New(script, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	bin, err := exec.LookPath("enqueue") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{bin: bin, dir: t.TempDir(), sim: s, env: env}
	addr := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/v1")
	r.write(t, "nightshift.yaml", configuration(addr))
	var in strings.Builder
	for i := range lines {
		fmt.Fprintf(&in, "{\"id\":\"line-%d\",\"prompt\":\"question %d\"}\n", i, i)
	}
	r.write(t, "in.jsonl", in.String())
	return r
}

func (r *runner) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// start begins `enqueue run in.jsonl -o out.jsonl`.
func (r *runner) start(t *testing.T) (*exec.Cmd, *words) {
	t.Helper()
	cmd, log := exec.Command(r.bin, "run", "in.jsonl", "-o", "out.jsonl"), &words{}
	cmd.Dir, cmd.Stderr = r.dir, log
	cmd.Env = append(os.Environ(), r.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, log
}

// words are what a process says, to be read while it runs.
type words struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// results returns the output's lines by custom_id; a line that is torn or
// stands twice fails the test.
func (r *runner) results(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var v struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Body struct {
					Choices []struct{ Message struct{ Content string } }
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("out.jsonl holds %q: %v", line, err)
		}
		if _, twice := all[v.CustomID]; twice {
			t.Errorf("%s has two results", v.CustomID)
		}
		if len(v.Response.Body.Choices) > 0 {
			all[v.CustomID] = v.Response.Body.Choices[0].Message.Content
		}
	}
	return all
}

func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// TestInterruptedRunGoesOn interrupts a run by ^C and starts it again, with an
// embedded Redis and with one that outlives the process: calls in flight finish
// and count, and no line is called twice.
func TestInterruptedRunGoesOn(t *testing.T) {
	for _, c := range []struct {
		name string
		env  func(t *testing.T) []string
		says string
	}{
		{"embedded", func(*testing.T) []string { return []string{"NIGHTSHIFT_REDIS_URL="} }, "the same command again does the remaining"},
		{"redis", func(t *testing.T) []string { return []string{"NIGHTSHIFT_REDIS_URL=" + redistest.Start(t).URL()} }, "the batch stays in Redis as run-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const lines = 30
			r := newRunner(t, lines, sim.Script{Default: sim.Behaviour{Latency: sim.Latency{Fixed: 150 * time.Millisecond}}}, c.env(t)...)
			cmd, log := r.start(t)
			waitUntil(t, "five calls", func() bool { return r.sim.Counts().Calls >= 5 })
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(cmd.Wait()); code != 130 {
				t.Fatalf("exit code %d, want 130\n%s", code, log)
			}
			if !strings.Contains(log.String(), c.says) {
				t.Errorf("it does not say how to go on:\n%s", log)
			}
			half, calls := r.results(t), r.sim.Counts()
			if calls.Cut > 0 || int64(len(half)) != calls.Calls || len(half) >= lines {
				t.Errorf("%d results of %d calls (%d cut off) of %d lines", len(half), calls.Calls, calls.Cut, lines)
			}
			cmd, log = r.start(t)
			if code := exitCode(cmd.Wait()); code != 0 {
				t.Fatalf("exit code %d\n%s", code, log)
			}
			r.complete(t, lines)
			if calls := r.sim.Counts().Calls; calls != lines {
				t.Errorf("%d calls for %d lines", calls, lines)
			}
		})
	}
}

// complete checks that every line has the answer to its own question.
func (r *runner) complete(t *testing.T, lines int) {
	t.Helper()
	all := r.results(t)
	if len(all) != lines {
		t.Errorf("%d results, want %d", len(all), lines)
	}
	for i := range lines {
		if got, want := all[fmt.Sprintf("line-%d", i)], fmt.Sprintf("echo: question %d", i); got != want {
			t.Errorf("line-%d: %q, want %q", i, got, want)
		}
	}
}

// TestSecondInterruptEndsCalls: the first waits for calls in flight, the second
// does not.
func TestSecondInterruptEndsCalls(t *testing.T) {
	t.Parallel()
	r := newRunner(t, 4, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Hang}}}}, "NIGHTSHIFT_REDIS_URL=")
	cmd, log := r.start(t)
	waitUntil(t, "a call", func() bool { return r.sim.Counts().InFlight > 0 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// Signals that come too close are one, and a third would kill it.
	waitUntil(t, "word of the first interrupt", func() bool { return strings.Contains(log.String(), "interrupt again") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 130 {
		t.Errorf("exit code %d, want 130\n%s", code, log)
	}
	if r.sim.Counts().Cut == 0 {
		t.Error("no call was cut off: what was waited for?")
	}
}

// TestKilledRunGoesOn: after SIGKILL the output may end in a torn line; nothing
// else is lost but the calls in flight.
func TestKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	const lines = 30
	r := newRunner(t, lines, sim.Script{Default: sim.Behaviour{Latency: sim.Latency{Fixed: 100 * time.Millisecond}}}, "NIGHTSHIFT_REDIS_URL=")
	cmd, _ := r.start(t)
	out := filepath.Join(r.dir, "out.jsonl")
	waitUntil(t, "a result", func() bool { info, err := os.Stat(out); return err == nil && info.Size() > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"id":"batch_req_0","custom_id":"line-2`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, log := r.start(t)
	if code := exitCode(cmd.Wait()); code != 0 {
		t.Fatalf("exit code %d\n%s", code, log)
	}
	if !strings.Contains(log.String(), "its last line was torn") {
		t.Errorf("it does not say that it mended the output:\n%s", log)
	}
	r.complete(t, lines)
}
