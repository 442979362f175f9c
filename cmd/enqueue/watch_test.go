package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/cli"
	"nightshift/internal/redistest"
)

func TestOutcomesAreNamed(t *testing.T) {
	for _, c := range []struct {
		o    outcomes
		want string
	}{
		{outcomes{}, ""},
		{outcomes{cancelled: 120}, "120 cancelled"},
		{outcomes{failed: 3, expired: 2}, "3 failed, 2 expired"},
	} {
		if got := c.o.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

func TestProgressOfAStatus(t *testing.T) {
	p := &program{cli.New("enqueue", nil, io.Discard, io.Discard)}
	until := time.Now().Add(time.Second)
	s := batch.Status{Total: 10, Outstanding: 4, State: batch.Waiting, WaitingFor: []batch.WaitingFor{{Model: "sim/large", Reason: "breaker_open", Until: until}}}
	got := withOutcomes(p.wait(s), outcomes{cancelled: 2})
	want := cli.Step{
		Done: 6, Total: 10, State: "waiting for sim/large (breaker open)",
		Note:  "until " + p.Clock(until, time.Now()) + ", 2 cancelled",
		Brief: "waits for sim/large until " + p.Stamp(until) + ", 2 cancelled",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for want, w := range map[string]batch.WaitingFor{
		"the hourly guard":                             {Reason: "guard"},
		"sim/large (breaker of sim open)":              {Model: "sim/large", Reason: "breaker_open", Parent: "sim"},
		"sim/large (breaker held open by anna)":        {Model: "sim/large", Reason: "breaker_open", HeldBy: "anna"},
		"sim/large (breaker of sim held open by anna)": {Model: "sim/large", Reason: "breaker_open", Parent: "sim", HeldBy: "anna"},
	} {
		if got := waitCause(w); got != want {
			t.Errorf("waits for %q, want %q", got, want)
		}
	}
	s.WaitingFor = []batch.WaitingFor{{Reason: "rung_after"}}
	if got := p.wait(s); got.State != "waiting for a rung with after or at_deadline" {
		t.Errorf("a rung without a model: %+v", got)
	}
	s.WaitingFor = []batch.WaitingFor{{Reason: "retry"}}
	if got := p.wait(s); got.State != "waiting for their next try" || got.Note != "" {
		t.Errorf("got %+v", got)
	}
	s.State = batch.Running
	if got := withOutcomes(p.wait(s), outcomes{failed: 1}); got.State != "running" || got.Note != "1 failed" || got.Brief != "" {
		t.Errorf("got %+v", got)
	}
}

func TestReasonsAreBrief(t *testing.T) {
	for reason, want := range map[string]string{
		"unavailable: status 503: the provider failed": "unavailable (503)",
		"timeout: no answer within 3s":                 "timeout: no answer within 3s",
		"":                                             "",
	} {
		if got := briefly(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}

// startedCommand is a command in a folder with a configuration and in.jsonl, on a Redis.
type startedCommand struct {
	*exec.Cmd
	said *bufio.Reader // standard error
}

// starter returns what starts commands of this test binary on a Redis.
func starter(t *testing.T, redis *redistest.Server) func(args ...string) startedCommand {
	t.Helper()
	bin, err := exec.LookPath("enqueue") // see TestMain
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"nightshift.yaml": configuration("127.0.0.1:1"), "in.jsonl": `{"id":"a","prompt":"Hello"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) startedCommand {
		cmd := exec.Command(bin, append(args, "--redis", redis.URL())...)
		cmd.Dir = dir
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return startedCommand{cmd, bufio.NewReader(said)}
	}
}

// hears reads lines until one begins like that.
func (c startedCommand) hears(t *testing.T, begin string) {
	t.Helper()
	for {
		line, err := c.said.ReadString('\n')
		if strings.HasPrefix(line, begin) {
			return
		}
		if err != nil {
			t.Fatalf("it did not say %q: %v", begin, err)
		}
	}
}

// TestInterruptedWatchIsNoError: ending the command is how one stops looking.
func TestInterruptedWatchIsNoError(t *testing.T) {
	t.Parallel()
	start := starter(t, redistest.Start(t))
	if err := start("batch", "--id", "night", "in.jsonl").Wait(); err != nil {
		t.Fatal(err)
	}
	cmd := start("watch", "night")
	for _, want := range []string{
		"no worker serves the queue overnight: its lines wait until one does (`worker run`)\n",
		"night 0/1 (0%) running\n",
	} {
		if line, err := cmd.said.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(cmd.said)
	if err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if !strings.HasSuffix(string(rest), "stopped watching; the batch goes on\n") || strings.Contains(string(rest), "error") {
		t.Errorf("it said %q", rest)
	}
}

// TestFollowersOutliveARestartOfRedis: the batch does, so who waits for it need not
// begin again.
func TestFollowersOutliveARestartOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	start := starter(t, redis)
	waiting := start("batch", "--id", "night", "in.jsonl", "--wait")
	waiting.hears(t, "night 0/1")
	watching := start("watch", "night")
	watching.hears(t, "night 0/1")
	redis.Kill()
	all := []startedCommand{waiting, watching}
	for _, cmd := range all {
		cmd.hears(t, "redis does not answer; trying for 2m0s: ")
	}
	redis.Restart(t)
	for _, cmd := range all {
		cmd.hears(t, "redis answers again, after ")
	}
	for _, cmd := range all {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		cmd.hears(t, "stopped watching; the batch goes on")
		if code := exitCode(cmd.Wait()); code != 130 {
			t.Errorf("%s: exit code %d, want 130", cmd.Args[1], code)
		}
	}
}
