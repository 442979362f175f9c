package batch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/breaker"
)

func TestAtDoorsTellsTheBreakersOwnTime(t *testing.T) {
	now := time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC)
	wakes := now.Add(70 * time.Second)
	st := Status{WaitingFor: []WaitingFor{
		{"a/open", "breaker_open", wakes},
		{"a/closed", "breaker_open", wakes},
		{"b/below", "breaker_open", wakes},
		{"a/closed", "rate_limited", wakes},
		{"a/unknown", "breaker_open", wakes},
		{"", "retry", wakes},
	}}
	model := func(key string) breaker.Key { return breaker.Key{Provider: key[:1], Model: key} }
	st.AtDoors([]breaker.Status{
		{Key: model("a/open").Parent(), Scope: breaker.ScopeParent, State: breaker.Closed},
		{Key: model("b/below").Parent(), Scope: breaker.ScopeParent, State: breaker.Open, Until: now.Add(45 * time.Second)},
		{Key: model("a/open"), Scope: breaker.ScopeModel, State: breaker.Open, Until: now.Add(30 * time.Second)},
		{Key: model("a/closed"), Scope: breaker.ScopeModel, State: breaker.Closed},
		{Key: model("b/below"), Scope: breaker.ScopeModel, State: breaker.Closed},
	})
	want := []WaitingFor{
		{"a/open", "breaker_open", now.Add(30 * time.Second)},
		{"b/below", "breaker_open", now.Add(45 * time.Second)},
		{"a/closed", "rate_limited", wakes},
		{"a/unknown", "breaker_open", wakes},
		{"", "retry", wakes},
	}
	if diff := cmp.Diff(want, st.WaitingFor); diff != "" {
		t.Error(diff)
	}
}

func TestLoads(t *testing.T) {
	now := newClock().t
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	backlogs := []Backlog{
		{Description: Description{Queue: "q"}, Waiting: 100, Out: 20, Deferred: map[int]int{0: 5, 1: 3}},
		{Description: Description{Queue: "q", Deadline: now.Add(time.Hour)}, Waiting: 7},
		{Description: Description{Queue: "q"}, Waiting: 1000, Out: 10, Cancelled: true},
		{Description: Description{Queue: "q", Deadline: now}, Waiting: 1000},
		{Description: Description{Queue: "r"}, Waiting: 2},
	}
	statuses := []Status{
		{Queue: "q", State: Running, Deadline: in(time.Hour), ETA: in(90 * time.Minute)},
		{Queue: "q", State: Running, Deadline: in(2 * time.Hour)},
		{Queue: "q", State: Done, Deadline: in(-time.Hour)},
		{Queue: "r", State: Running},
	}
	late := -30 * time.Minute
	want := map[string]Load{"q": {107, 119, &late}, "r": {2, 2, nil}}
	if diff := cmp.Diff(want, Loads(backlogs, statuses, now)); diff != "" {
		t.Error(diff)
	}
}
