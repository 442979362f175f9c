package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nightshift/internal/redistest"
	"nightshift/internal/sim"
)

// desk is where a person submits: a configuration, a Redis and a simulated provider.
type desk struct {
	config string // the file
	redis  *redistest.Server
	sim    *sim.Server
}

// newDesk makes a desk; SIM in the configuration is the provider's address.
func newDesk(t *testing.T, config string, redisArgs ...string) *desk {
	t.Helper()
	d := &desk{config: filepath.Join(t.TempDir(), "nightshift.yaml"), redis: redistest.Start(t, redisArgs...), sim: sim.New(sim.Script{}, sim.Options{})}
	if err := d.sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.sim.Close() })
	if err := os.WriteFile(d.config, []byte(strings.ReplaceAll(config, "SIM", d.sim.URL())), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// work starts a worker, a process, which is killed when the test ends.
func (d *desk) work(t *testing.T) {
	t.Helper()
	cmd := exec.Command(filepath.Join(build(t, "worker"), "worker"), "run", "--config", d.config, "--redis", d.redis.URL(), "--metrics=127.0.0.1:0", "--dashboard=127.0.0.1:0")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// enqueue runs the command, in this process.
func (d *desk) enqueue(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	args = append(args, "--config", d.config, "--redis", d.redis.URL())
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// must runs a command that must end well, and returns what it printed.
func (d *desk) must(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := d.enqueue(args...)
	if code != 0 {
		t.Fatalf("enqueue %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}
