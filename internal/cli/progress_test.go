package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// plainProgress is progress off a terminal with a clock that the test moves.
func plainProgress() (p *Progress, out *bytes.Buffer, pass func(time.Duration)) {
	out = &bytes.Buffer{}
	e := New("tool", nil, nil, out)
	p = e.NewProgress("lines", 10)
	now := time.Unix(1_800_000_000, 0)
	p.now = func() time.Time { return now }
	p.last = now
	return p, out, func(d time.Duration) { now = now.Add(d) }
}

func TestPlainProgressWritesAtMostEveryTwoSecondsOrOnAChange(t *testing.T) {
	p, out, pass := plainProgress()
	p.Update(Step{Done: 0, Total: 10, State: "running"}) // the first
	pass(time.Second)
	p.Update(Step{Done: 1, Total: 10, State: "running"}) // too soon
	p.Update(Step{Done: 2, Total: 10, State: "waiting"}) // changed
	pass(time.Second)
	p.Update(Step{Done: 3, Total: 10, State: "waiting"}) // too soon
	pass(time.Second)
	p.Update(Step{Done: 4, Total: 10, State: "waiting", Note: "1 failed"}) // due
	pass(time.Minute)
	p.Update(Step{Done: 4, Total: 10, State: "waiting", Note: "1 failed"}) // nothing new
	p.Event("breaker opened")
	p.Update(Step{Done: 5, Total: 10, State: "waiting"})
	p.Update(Step{Done: 10, Total: 10, State: "waiting"}) // the last: Close writes it
	p.Close()
	want := strings.Join([]string{
		"lines 0/10 (0%) running",
		"lines 2/10 (20%) waiting",
		"lines 4/10 (40%) waiting, 1 failed",
		"breaker opened",
		"lines 5/10 (50%) waiting",
		"lines 10/10 (100%) waiting",
		"",
	}, "\n")
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestBarKeepsEventsAboveItself(t *testing.T) {
	out := &bytes.Buffer{}
	e := New("tool", nil, nil, out)
	e.Err.terminal = true
	p := e.NewProgress("lines", 10)
	p.Update(Step{Done: 4, Total: 10, State: "running"})
	p.Event("breaker opened")
	p.Update(Step{Done: 10, Total: 10, State: "done"})
	p.Close()
	e.Say("after")
	got := out.String()
	for _, want := range []string{"10/10", "breaker opened\n", "done"} {
		if !strings.Contains(got, want) {
			t.Errorf("the terminal lacks %q: %q", want, got)
		}
	}
	if !strings.HasSuffix(got, "after\n") {
		t.Errorf("the terminal was not given back: %q", got)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 850 * time.Millisecond: "850ms", 12340 * time.Millisecond: "12.3s",
		250 * time.Second: "4m10s", 125 * time.Minute: "2h05m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%s) = %q, want %q", d, got, want)
		}
	}
}
