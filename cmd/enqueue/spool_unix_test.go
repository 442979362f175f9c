//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/internal/sim"
)

// TestInterruptWhileInputIsAwaited: ^C ends a command whose input does not come,
// whether nobody writes to the pipe or whoever does has stopped.
func TestInterruptWhileInputIsAwaited(t *testing.T) {
	for _, command := range []string{"estimate", "run"} {
		for _, from := range []string{"standard input", "a pipe that nobody opened"} {
			t.Run(command+" from "+from, func(t *testing.T) {
				r := newRunner(t, 1, sim.Script{})
				tmp, said := t.TempDir(), &words{}
				args := []string{command, "-"}
				if from != "standard input" {
					args[1] = "fifo"
					if err := syscall.Mkfifo(filepath.Join(r.dir, "fifo"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if command == "run" {
					args = append(args, "-o", "out.jsonl")
				}
				cmd := exec.Command(r.bin, args...)
				cmd.Dir, cmd.Stderr, cmd.Env = r.dir, said, append(os.Environ(), "TMPDIR="+tmp)
				silent, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				defer silent.Close()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				killer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
				defer killer.Stop()
				awaitSpool(t, tmp)
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != 130 {
					t.Errorf("exit code %d, want 130", code)
				}
				if s := said.String(); s != "enqueue: error: interrupted\n" {
					t.Errorf("it says %q", s)
				}
				if left, _ := os.ReadDir(tmp); len(left) > 0 {
					t.Errorf("it left %s behind", left[0].Name())
				}
			})
		}
	}
}

// awaitSpool waits for the file in which a command keeps its input: from then on
// it waits for the input, and signals are seen.
func awaitSpool(t *testing.T, tmp string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		all, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 && strings.HasPrefix(all[0].Name(), "nightshift-") {
			return
		}
	}
	t.Fatal("it never began to read its input")
}
