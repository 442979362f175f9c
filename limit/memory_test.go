package limit

import (
	"testing"
	"time"
)

func TestMemoryPacesByConfiguredLimits(t *testing.T) {
	now := time.UnixMilli(1_750_000_000_000)
	m := NewMemory(func(Model) Limits { return Limits{RPM: 60} }, func() time.Time { return now })
	ask := func(ticket string) Slot {
		s, err := m.Reserve(t.Context(), Ask{Model: model, Ticket: ticket})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := ask("a"); s.Verdict != Go {
		t.Fatalf("the first: %+v", s)
	}
	if s := ask("b"); s != (Slot{Verdict: Wait, Wait: time.Second, Reason: ReasonRequests}) {
		t.Fatalf("the second: %+v", s)
	}
	now = now.Add(time.Second)
	if s := ask("c"); s.Verdict != Wait {
		t.Fatalf("one that came later goes before one that waits: %+v", s)
	}
	if s := ask("b"); s.Verdict != Go {
		t.Fatalf("the second at its time: %+v", s)
	}
}
