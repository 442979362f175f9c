package batch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/limit"
)

func TestAtGuards(t *testing.T) {
	now := newClock().t
	guard := func(producer string, open bool, after time.Duration) limit.GuardStatus {
		return limit.GuardStatus{Producer: producer, Open: open, Until: now.Add(after)}
	}
	open, all := guard("ann", true, time.Minute), guard(limit.AllProducers, true, time.Hour)
	breaker := WaitingFor{Model: "p/a", Reason: "breaker_open", Until: now.Add(2 * time.Minute)}
	place := WaitingFor{Reason: "guard", Until: now.Add(30 * time.Second)}
	until := func(d time.Duration) WaitingFor { return WaitingFor{Reason: "guard", Until: now.Add(d)} }
	idle := Status{Producer: "ann", State: Running, Outstanding: 5, Idle: true}
	with := func(s Status, state State, waits ...WaitingFor) Status {
		s.State, s.WaitingFor = state, waits
		return s
	}
	busy, over := idle, idle
	busy.Idle = false
	over.FinishedAt, over.Outstanding = &now, 0
	for name, c := range map[string]struct {
		st     Status
		guards []limit.GuardStatus
		state  State
		want   []WaitingFor
	}{
		"no guard":             {idle, nil, Running, nil},
		"it is closed":         {idle, []limit.GuardStatus{guard("ann", false, 0)}, Running, nil},
		"it is open":           {idle, []limit.GuardStatus{open}, Waiting, []WaitingFor{until(time.Minute)}},
		"another's is":         {idle, []limit.GuardStatus{guard("bob", true, time.Minute)}, Running, nil},
		"that of all is":       {idle, []limit.GuardStatus{all}, Waiting, []WaitingFor{until(time.Hour)}},
		"both are":             {idle, []limit.GuardStatus{all, open}, Waiting, []WaitingFor{until(time.Hour)}},
		"lines are under way":  {busy, []limit.GuardStatus{open}, Running, nil},
		"lines have places":    {with(idle, Waiting, place), []limit.GuardStatus{open}, Waiting, []WaitingFor{place}},
		"they are being woken": {with(idle, Waiting, place, breaker), nil, Waiting, []WaitingFor{breaker}},
		"they wait for breakers": {
			with(idle, Waiting, breaker), []limit.GuardStatus{open}, Waiting, []WaitingFor{until(time.Minute), breaker},
		},
		"it is cancelled": {with(idle, Cancelling), []limit.GuardStatus{open}, Cancelling, nil},
		"it is over":      {with(over, Done), []limit.GuardStatus{open}, Done, nil},
	} {
		t.Run(name, func(t *testing.T) {
			st := c.st
			st.AtGuards(c.guards)
			if diff := cmp.Diff(append([]WaitingFor{}, c.want...), append([]WaitingFor{}, st.WaitingFor...)); diff != "" || st.State != c.state {
				t.Errorf("%s\n%s", st.State, diff)
			}
		})
	}
}

func TestETAOfABatchThatTheGuardKeeps(t *testing.T) {
	now := newClock().t
	guards := []limit.GuardStatus{{Producer: "ann", Open: true, Until: now.Add(time.Hour)}}
	at := func(d time.Duration) *time.Time { end := now.Add(d); return &end }
	onTime, late := true, false
	for name, c := range map[string]struct {
		idle          bool
		eta, deadline time.Duration
		kept          bool
		onTime        *bool
	}{
		"before the guard lets any line go on":      {true, time.Minute, 2 * time.Hour, false, nil},
		"which is after the deadline":               {true, time.Minute, 30 * time.Minute, false, &late},
		"after it":                                  {true, 90 * time.Minute, 2 * time.Hour, true, &onTime},
		"lines go on, since it does not keep these": {false, time.Minute, 2 * time.Hour, true, &onTime},
	} {
		t.Run(name, func(t *testing.T) {
			st := Status{Producer: "ann", State: Running, Outstanding: 5, Idle: c.idle, ETA: at(c.eta), Deadline: at(c.deadline), OnTime: &onTime}
			st.AtGuards(guards)
			if diff := cmp.Diff(c.onTime, st.OnTime); diff != "" || (st.ETA != nil) != c.kept {
				t.Errorf("ETA %v, on time:\n%s", st.ETA, diff)
			}
		})
	}
}
