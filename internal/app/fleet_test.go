package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/limit"
	"nightshift/tasks"
)

// fleetOf returns sources with one open breaker and one queue, seen by a keeper.
func fleetOf() FleetSources {
	return FleetSources{
		IsKeeper: func() bool { return true },
		Queues:   []string{"overnight"},
		Guards: func(context.Context) ([]limit.GuardStatus, error) {
			return []limit.GuardStatus{
				{Producer: "*", Calls: 6000, Limits: limit.GuardLimits{Calls: 24000}},
				{Producer: "anna", Calls: 4000, Limits: limit.GuardLimits{Calls: 5000}},
				{Producer: "bert", Calls: 2500, USD: 2e9, Open: true, Limits: limit.GuardLimits{Calls: 5000, USD: 2e9}},
				{Producer: "carl", Calls: 50, Limits: limit.GuardLimits{Calls: 5000}},
				{Producer: "nightly", Calls: 1000, USD: 1e9, Limits: limit.GuardLimits{Calls: 5000, USD: 4e9}},
				{Producer: "unlimited", Calls: 1e6},
				{Producer: "system", Calls: 3},
			}, nil
		},
		Producers: []string{"nightly", "unlimited"},
		Breakers: func(context.Context) ([]breaker.Status, error) {
			return []breaker.Status{
				{Key: gpt, Scope: breaker.ScopeModel, State: breaker.Open},
				{Key: gpt, Scope: breaker.ScopeParent, State: breaker.Closed},
			}, nil
		},
		States: func(context.Context, []string) (map[string]tasks.QueueState, error) {
			return map[string]tasks.QueueState{
				"overnight": {Counts: tasks.Counts{Pending: 3, Active: 2, Retry: 40}, Paused: &tasks.Pause{By: "anna"}},
			}, nil
		},
		Workers: func(context.Context) ([]tasks.Heartbeat, error) {
			return []tasks.Heartbeat{
				{ID: "a", Queues: map[string]tasks.QueueBeat{"overnight": {Slots: 50}}},
				{ID: "b", Queues: map[string]tasks.QueueBeat{"overnight": {Slots: 25}, "of another configuration": {Slots: 5}}},
			}, nil
		},
		Memory: func(context.Context) (memoryUse, error) { return memoryUse{used: 3 << 30, limit: 4 << 30}, nil },
		Loads: func(context.Context) (map[string]batch.Load, error) {
			late := -90 * time.Second
			return map[string]batch.Load{
				"overnight": {Backlog: 12000, Runnable: 12005, Slack: &late}, "of another configuration": {Backlog: 5},
			}, nil
		},
	}
}

const fleetText = `
# HELP nightshift_breaker_state 1 for the state that a breaker is in, else 0. From the keeper only.
# TYPE nightshift_breaker_state gauge
nightshift_breaker_state{model="",provider="openai",region="eastus",scope="parent",state="closed"} 1
nightshift_breaker_state{model="",provider="openai",region="eastus",scope="parent",state="half_open"} 0
nightshift_breaker_state{model="",provider="openai",region="eastus",scope="parent",state="open"} 0
nightshift_breaker_state{model="openai/gpt-4o",provider="openai",region="eastus",scope="model",state="closed"} 0
nightshift_breaker_state{model="openai/gpt-4o",provider="openai",region="eastus",scope="model",state="half_open"} 0
nightshift_breaker_state{model="openai/gpt-4o",provider="openai",region="eastus",scope="model",state="open"} 1
# HELP nightshift_guard_state 1 for the state that the hourly guard of a producer is in, else 0; other is open while any producer without a name in the configuration is. From the keeper only.
# TYPE nightshift_guard_state gauge
nightshift_guard_state{producer="*",state="closed"} 1
nightshift_guard_state{producer="*",state="open"} 0
nightshift_guard_state{producer="nightly",state="closed"} 1
nightshift_guard_state{producer="nightly",state="open"} 0
nightshift_guard_state{producer="other",state="closed"} 0
nightshift_guard_state{producer="other",state="open"} 1
nightshift_guard_state{producer="unlimited",state="closed"} 1
nightshift_guard_state{producer="unlimited",state="open"} 0
# HELP nightshift_guard_used_ratio Share of its hourly limit, calls or USD, that a producer has used; 0 without a limit; other is the most of the other producers. From the keeper only.
# TYPE nightshift_guard_used_ratio gauge
nightshift_guard_used_ratio{producer="*"} 0.25
nightshift_guard_used_ratio{producer="nightly"} 0.25
nightshift_guard_used_ratio{producer="other"} 1
nightshift_guard_used_ratio{producer="unlimited"} 0
# HELP nightshift_keeper 1 while this process holds the keeper's lease.
# TYPE nightshift_keeper gauge
nightshift_keeper 1
# HELP nightshift_queue_backlog_lines Lines of a queue that are not released yet. From the keeper only.
# TYPE nightshift_queue_backlog_lines gauge
nightshift_queue_backlog_lines{queue="overnight"} 12000
# HELP nightshift_queue_deadline_slack_seconds From the forecast end of the tightest batch of a queue to its deadline; negative: late. Absent without a deadline. From the keeper only.
# TYPE nightshift_queue_deadline_slack_seconds gauge
nightshift_queue_deadline_slack_seconds{queue="overnight"} -90
# HELP nightshift_queue_paused 1 while a person has paused a queue, else 0. From the keeper only.
# TYPE nightshift_queue_paused gauge
nightshift_queue_paused{queue="overnight"} 1
# HELP nightshift_queue_runnable_lines Lines of a queue that could run now: released or not, and not deferred. From the keeper only.
# TYPE nightshift_queue_runnable_lines gauge
nightshift_queue_runnable_lines{queue="overnight"} 12005
# HELP nightshift_queue_slots Lines of a queue that all live workers together can have under way. From the keeper only.
# TYPE nightshift_queue_slots gauge
nightshift_queue_slots{queue="overnight"} 75
# HELP nightshift_queue_tasks Tasks of a queue by asynq's state; deferred ones are in retry. From the keeper only.
# TYPE nightshift_queue_tasks gauge
nightshift_queue_tasks{queue="overnight",state="active"} 2
nightshift_queue_tasks{queue="overnight",state="archived"} 0
nightshift_queue_tasks{queue="overnight",state="pending"} 3
nightshift_queue_tasks{queue="overnight",state="retry"} 40
nightshift_queue_tasks{queue="overnight",state="scheduled"} 0
# HELP nightshift_redis_memory_max_bytes Memory that Redis may use: its maxmemory, or without one the memory of its machine. From the keeper only.
# TYPE nightshift_redis_memory_max_bytes gauge
nightshift_redis_memory_max_bytes 4.294967296e+09
# HELP nightshift_redis_memory_used_bytes Memory that Redis uses; of a cluster, the server that is nearest to its limit. From the keeper only.
# TYPE nightshift_redis_memory_used_bytes gauge
nightshift_redis_memory_used_bytes 3.221225472e+09
# HELP nightshift_workers Workers that sent a heartbeat in the last 10 s. From the keeper only.
# TYPE nightshift_workers gauge
nightshift_workers 2
`

func TestFleetOfTheKeeper(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	NewFleet(reg, fleetOf())
	if err := testutil.GatherAndCompare(reg, strings.NewReader(fleetText)); err != nil {
		t.Error(err)
	}
}

// Ten workers export the fleet once: nine of them nothing but that they are not
// the keeper, and they do not even ask Redis.
func TestFleetOfOtherProcesses(t *testing.T) {
	from := fleetOf()
	from.IsKeeper = func() bool { return false }
	from.Breakers = func(context.Context) ([]breaker.Status, error) {
		t.Error("a process that is not the keeper reads the breakers")
		return nil, nil
	}
	expectNothing(t, from)
}

// The lease can end while a slow Redis is read; another exports by then.
func TestFleetWhenTheLeaseEndsMeanwhile(t *testing.T) {
	from := fleetOf()
	keeper := true
	from.IsKeeper = func() bool { return keeper }
	from.Loads = func(context.Context) (map[string]batch.Load, error) {
		keeper = false
		return nil, nil
	}
	expectNothing(t, from)
}

func expectNothing(t *testing.T, from FleetSources) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	NewFleet(reg, from)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP nightshift_keeper 1 while this process holds the keeper's lease.
# TYPE nightshift_keeper gauge
nightshift_keeper 0
`)); err != nil {
		t.Error(err)
	}
}

// What cannot be read is an error and absent, never 0; the rest is there.
func TestFleetWhenAPartCannotBeRead(t *testing.T) {
	from := fleetOf()
	from.Loads = func(context.Context) (map[string]batch.Load, error) { return nil, errors.New("connection refused") }
	reg := prometheus.NewPedanticRegistry()
	NewFleet(reg, from)
	families, err := reg.Gather()
	if err == nil || !strings.Contains(err.Error(), "count backlog: connection refused") {
		t.Errorf("error %v", err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	if got := strings.Join(names, " "); got != "nightshift_breaker_state nightshift_guard_state nightshift_guard_used_ratio nightshift_keeper nightshift_queue_paused nightshift_queue_slots nightshift_queue_tasks nightshift_redis_memory_max_bytes nightshift_redis_memory_used_bytes nightshift_workers" {
		t.Errorf("families: %s", got)
	}
}

// A read that hangs ends with the scrape's own limit, which every source is given.
func TestFleetReadsAreBounded(t *testing.T) {
	from := fleetOf()
	from.States = func(ctx context.Context, _ []string) (map[string]tasks.QueueState, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		return nil, nil
	}
	reg := prometheus.NewPedanticRegistry()
	NewFleet(reg, from)
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}
