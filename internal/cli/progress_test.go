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

func TestTextLeavesTheBarRoom(t *testing.T) {
	step := Step{State: "waiting for sim/large (breaker open)", Note: "until 12:00:07 CEST, 3 failed", Brief: "sim/large until 12:00:07, 3 failed"}
	for columns, want := range map[int]string{
		120: "waiting for sim/large (breaker open), until 12:00:07 CEST, 3 failed",
		80:  "sim/large until 12:00:07, 3 failed",
		40:  "sim/large until 1…",
		10:  "…",
	} {
		if got := step.fit(columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	if got := (Step{State: "running"}).fit(80); got != "running" {
		t.Errorf("got %q", got)
	}
}

// TestBarReplacesItself: each redraw begins where the one before did, on a clean
// line after a signal.
func TestBarReplacesItself(t *testing.T) {
	out := &bytes.Buffer{}
	c := &console{err: &Stderr{w: out, terminal: true}}
	c.WriteString("one\n")
	if err := c.Flush(1); err != nil {
		t.Fatal(err)
	}
	c.err.smudge()
	c.WriteString("two\n")
	if err := c.Flush(1); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "one\n\r\x1b[K\x1b[1A\x1b[Jtwo\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
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
