package batch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/breaker"
)

func TestAtDoorsTellsTheBreakersOwnTime(t *testing.T) {
	now := time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC)
	wakes := now.Add(70 * time.Second)
	st := Status{WaitingFor: []WaitingFor{
		wait("a/open", "breaker_open", wakes),
		wait("a/closed", "breaker_open", wakes),
		wait("b/below", "breaker_open", wakes),
		wait("b/for-good", "breaker_open", wakes),
		wait("a/closed", "rate_limited", wakes),
		wait("a/unknown", "breaker_open", wakes),
		wait("", "retry", wakes),
	}}
	model := func(key string) breaker.Key { return breaker.Key{Provider: key[:1], Model: key} }
	st.AtDoors([]breaker.Status{
		{Key: model("a/open").Parent(), Scope: breaker.ScopeParent, State: breaker.Closed},
		{Key: model("b/below").Parent(), Scope: breaker.ScopeParent, State: breaker.Open, Until: now.Add(45 * time.Second)},
		{Key: model("a/open"), Scope: breaker.ScopeModel, State: breaker.Open, Until: now.Add(30 * time.Second)},
		{Key: model("a/closed"), Scope: breaker.ScopeModel, State: breaker.Closed},
		{Key: model("b/below"), Scope: breaker.ScopeModel, State: breaker.Closed},
		{
			Key: model("b/for-good"), Scope: breaker.ScopeModel, State: breaker.Open,
			Held: breaker.Held{State: breaker.Open, By: "anna"},
		},
	})
	want := []WaitingFor{
		wait("a/open", "breaker_open", now.Add(30*time.Second)),
		{Model: "b/below", Reason: "breaker_open", Parent: "b", Until: now.Add(45 * time.Second)},
		{Model: "b/for-good", Reason: "breaker_open", HeldBy: "anna"},
		wait("a/closed", "rate_limited", wakes),
		wait("a/unknown", "breaker_open", wakes),
		wait("", "retry", wakes),
	}
	if diff := cmp.Diff(want, st.WaitingFor); diff != "" {
		t.Error(diff)
	}
}

func wait(model, reason string, until time.Time) WaitingFor {
	return WaitingFor{Model: model, Reason: reason, Until: until}
}

func TestAnUnknownWaitIsNullInJSON(t *testing.T) {
	at := time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		w    WaitingFor
		want string
	}{
		{wait("m", "breaker_open", at), `{"model":"m","reason":"breaker_open","until":"2026-11-29T22:00:00Z"}`},
		{WaitingFor{Model: "m", Reason: "breaker_open", HeldBy: "anna"}, `{"model":"m","reason":"breaker_open","held_by":"anna","until":null}`},
	} {
		text, err := json.Marshal(c.w)
		if err != nil || string(text) != c.want {
			t.Errorf("%s, %v; want %s", text, err, c.want)
		}
		var back WaitingFor
		if err := json.Unmarshal(text, &back); err != nil || !back.Until.Equal(c.w.Until) || back.HeldBy != c.w.HeldBy {
			t.Errorf("%+v, %v; want %+v", back, err, c.w)
		}
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
