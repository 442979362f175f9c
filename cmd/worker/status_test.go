package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/tasks"
)

func TestFleetIsSummedUp(t *testing.T) {
	now := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	member := func(id, hash string, silent time.Duration) tasks.Member {
		return tasks.Member{Heartbeat: tasks.Heartbeat{ID: id, ConfigHash: hash, Queues: map[string]tasks.QueueBeat{"night": {Slots: 4, Active: 3}}}, Silent: silent}
	}
	queues := map[string]*queueRecord{"night": {Queue: "night", Out: 9, Backlog: 20}, "day": {Queue: "day", Backlog: 7}}
	f := newFleet([]tasks.Member{member("a", "old", 0), member("b", "new", time.Second), member("c", "new", time.Minute)}, queues, now)
	want := []queueRecord{{Queue: "day", Backlog: 7}, {Queue: "night", Workers: 2, Slots: 8, Active: 6, Out: 9, Backlog: 20}}
	if diff := cmp.Diff(want, f.Queues); diff != "" {
		t.Error(diff)
	}
	if w := f.Workers[2]; w.State != lost || !w.SeenAt.Equal(now.Add(-time.Minute)) || f.Workers[1].State != live {
		t.Errorf("%+v", f.Workers)
	}
	odd := strings.Join(f.oddities(), "\n")
	for _, part := range []string{
		"worker c said nothing since 2026-03-01T21:59:00Z", "different configurations: old (1 worker), new (1 worker)",
		"no worker serves queue day, which has 7 lines", "nobody is the keeper",
	} {
		if !strings.Contains(odd, part) {
			t.Errorf("%q is not in %q", part, odd)
		}
	}
	f = newFleet([]tasks.Member{member("a", "new", 0)}, map[string]*queueRecord{}, now)
	f.Keeper = &keeperRecord{ID: "a"}
	if odd := f.oddities(); len(odd) > 0 {
		t.Errorf("of a fleet that is well: %q", odd)
	}
}
