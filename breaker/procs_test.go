package breaker

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// procs are processes of the test binary in another role; see TestMain.
type procs struct {
	*testing.T
	role string // the variable that gives it
	addr string // of Redis, its value
	all  map[int64]*proc
}

type proc struct {
	*exec.Cmd
	stderr bytes.Buffer
}

func newProcs(t *testing.T, role, addr string, n int) *procs {
	p := &procs{T: t, role: role, addr: addr, all: map[int64]*proc{}}
	for range n {
		p.start()
	}
	return p
}

// start starts one more, which ends with the test at the latest.
func (p *procs) start() {
	one := &proc{Cmd: exec.Command(os.Args[0])}
	one.Env = append(os.Environ(), p.role+"="+p.addr)
	one.Stderr = &one.stderr
	if err := one.Start(); err != nil {
		p.Fatal(err)
	}
	p.all[int64(one.Process.Pid)] = one
	p.Cleanup(one.end)
}

func (p *proc) end() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

func (p *procs) kill(pid int64) {
	one := p.all[pid]
	if one == nil {
		p.Fatalf("no process %d", pid)
	}
	one.end()
	delete(p.all, pid)
}

// wait waits until all have done their part.
func (p *procs) wait() {
	for pid, one := range p.all {
		if err := one.Wait(); err != nil {
			p.Errorf("process %d: %v\n%s", pid, err, one.stderr.String())
		}
	}
}
