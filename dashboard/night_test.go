package dashboard_test

import (
	"context"
	"sync"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/dashboard"
	"nightshift/limit"
	"nightshift/provider"
)

// fakeBatches answers from memory.
type fakeBatches struct {
	mu     sync.Mutex
	list   []batch.Status
	lines  map[batch.Ref]batch.Line
	recent []batch.EndedLine
	story  batch.Story
	record batch.Record
	err    error
	asked  int // requests looked up
	listed int
}

func (f *fakeBatches) set(list []batch.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
}

// List asks the doors too, as batches do.
func (f *fakeBatches) List(_ context.Context, doors dashboard.Doors) ([]batch.Status, error) {
	_, _ = doors.Breakers()
	_, _ = doors.Guards()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed++
	return f.list, f.err
}

func (f *fakeBatches) Status(_ context.Context, id string) (batch.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.list {
		if st.ID == id {
			return st, f.err
		}
	}
	if f.err != nil {
		return batch.Status{}, f.err
	}
	return batch.Status{}, batch.ErrNotFound
}

func (f *fakeBatches) Recent(context.Context, string, int) ([]batch.EndedLine, error) {
	return f.recent, f.err
}

func (f *fakeBatches) Why(_ context.Context, id string, line int64) (batch.Story, error) {
	switch {
	case f.err != nil:
		return batch.Story{}, f.err
	case f.story.Batch != id:
		return batch.Story{}, batch.ErrNotFound
	case f.story.Line != line:
		return batch.Story{}, &batch.NoLineError{Batch: id, First: 1, Last: 9, Total: 9}
	}
	return f.story, nil
}

func (f *fakeBatches) Record(context.Context, string, int64) (batch.Record, error) {
	if f.record.JSON == nil {
		return batch.Record{}, batch.ErrNotFound
	}
	return f.record, f.err
}

func (f *fakeBatches) Request(_ context.Context, ref batch.Ref) (batch.Line, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.err != nil {
		return batch.Line{}, f.err
	}
	line, ok := f.lines[ref]
	if !ok {
		return batch.Line{}, batch.ErrNotFound
	}
	return line, nil
}

// fakeBreakers answers from memory.
type fakeBreakers struct {
	mu     sync.Mutex
	list   []breaker.Status
	err    error
	listed int
}

func (f *fakeBreakers) set(list []breaker.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
}

func (f *fakeBreakers) List(context.Context, []breaker.Key) ([]breaker.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed++
	return f.list, f.err
}

// fakeGuards answers from memory.
type fakeGuards struct {
	mu     sync.Mutex
	list   []limit.GuardStatus
	err    error
	listed int
}

func (f *fakeGuards) set(list []limit.GuardStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
}

func (f *fakeGuards) List(context.Context) ([]limit.GuardStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed++
	return f.list, f.err
}

// fakePaces, fakeFigures, fakeFleet and fakeMinutes answer from memory.
type fakePaces struct {
	list []limit.Pace
	err  error
}

func (f *fakePaces) List(context.Context, []limit.Model) ([]limit.Pace, error) { return f.list, f.err }

type fakeFigures struct {
	list []dashboard.Figures
	err  error
}

func (f *fakeFigures) Figures(_ context.Context, models []breaker.Key) ([]dashboard.Figures, error) {
	all := make([]dashboard.Figures, len(models))
	copy(all, f.list)
	return all, f.err
}

type fakeFleet struct {
	status dashboard.FleetStatus
	err    error
}

func (f *fakeFleet) Fleet(context.Context) (dashboard.FleetStatus, error) { return f.status, f.err }

type fakeMinutes struct {
	list []dashboard.Minute
	err  error
}

func (f *fakeMinutes) Minutes(context.Context, time.Time) ([]dashboard.Minute, error) {
	return f.list, f.err
}

// fakeChanges notes what is asked of it.
type fakeChanges struct {
	mu  sync.Mutex
	did []any
	n   int64
	err error
}

// forced, released, cancelled and retried are what it notes.
type (
	forced struct {
		Key breaker.Key
		breaker.Force
	}
	released  struct{ Producer, By string }
	cancelled struct{ Batch string }
	retried   struct {
		Batch string
		batch.Retry
	}
)

func (f *fakeChanges) note(x any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, x)
	return f.err
}

func (f *fakeChanges) Force(_ context.Context, k breaker.Key, x breaker.Force) error {
	return f.note(forced{k, x})
}

func (f *fakeChanges) Release(_ context.Context, producer, by string) error {
	return f.note(released{producer, by})
}

func (f *fakeChanges) Cancel(_ context.Context, id string) error { return f.note(cancelled{id}) }

func (f *fakeChanges) Retry(_ context.Context, id string, r batch.Retry, _ func(int64, int64)) (int64, error) {
	return f.n, f.note(retried{id, r})
}

var (
	openaiKey = breaker.Key{Provider: "openai", Region: "eastus"}
	premium   = breaker.Key{Provider: "openai", Model: "openai/gpt-4o", Region: "eastus"}
	sonnet    = breaker.Key{Provider: "anthropic", Model: "anthropic/claude-sonnet-4-5"}
	local     = breaker.Key{Provider: "local", Model: "local/llama3.1:8b"}
)

// aNight is a batch in each interesting state, and breakers likewise.
func aNight(now time.Time) ([]batch.Status, []breaker.Status) {
	batches := []batch.Status{{
		ID: "summaries-2026-10-05", State: batch.Waiting, Queue: "overnight", Producer: "nightly-report",
		Total: 12500, Succeeded: 8210, Failed: 140, Expired: 25, Outstanding: 4125, Degraded: 1210, Cached: 640, Calls: 9044, Deferrals: 318,
		CostUSD: provider.Dollars(41.27), WastedUSD: provider.Dollars(0.0312), RatePerMinute: 84.4,
		ETA: new(now.Add(49 * time.Minute)), OnTime: new(true), Deadline: new(now.Add(7 * time.Hour)), CreatedAt: now.Add(-2 * time.Hour),
		AnsweredBy:  map[string]int64{premium.Model: 7000, local.Model: 1200, "nightshift/text": 10},
		EndedAs:     map[string]int64{"retries_exhausted": 101, "invalid_request": 39, "batch_expired": 25, "timeout": 0},
		DeferredFor: map[string]int64{"breaker_open": 290, "guard": 28},
		WaitingFor:  []batch.WaitingFor{{Model: premium.Model, Reason: "breaker_open", Until: now.Add(42 * time.Second), Lines: 96}},
	}, {
		ID: "translations", State: batch.Running, Queue: "overnight", Producer: "ada",
		Total: 400, Succeeded: 31, Outstanding: 369, Calls: 31, CostUSD: provider.Dollars(0.0123), RatePerMinute: 6.2,
		ETA: new(now.Add(time.Hour)), OnTime: new(false), Deadline: new(now.Add(30 * time.Minute)), CreatedAt: now.Add(-5 * time.Minute),
	}, {
		ID: "titles-2026-10-04", State: batch.Done, Queue: "overnight", Producer: "nightly-report",
		Total: 200, Succeeded: 200, Calls: 200, CreatedAt: now.Add(-5 * time.Hour), FinishedAt: new(now.Add(-4 * time.Hour)),
	}}
	breakers := []breaker.Status{{
		Key: openaiKey, Scope: breaker.ScopeParent, State: breaker.Closed, Cooldown: 30 * time.Second, Ring: make([]bool, 3), Results: 3, Window: 20,
	}, {
		Key: premium, Scope: breaker.ScopeModel, State: breaker.Open, Reason: "unavailable: status 503: the provider failed", Until: now.Add(42 * time.Second),
		Cooldown: 2 * time.Minute, Failures: 11, Results: 14, Window: 20,
		Ring: []bool{false, true, true, false, true, true, false, true, true, true, true, true, true, true},
		Transitions: []breaker.Transition{
			{From: breaker.HalfOpen, To: breaker.Open, Reason: "probe failed: status 503", At: now.Add(-18 * time.Second)},
			{From: breaker.Open, To: breaker.HalfOpen, Reason: "probe", At: now.Add(-20 * time.Second)},
			{From: breaker.Closed, To: breaker.Open, Reason: "unavailable: status 503", At: now.Add(-50 * time.Second)},
		},
	}, {
		Key: sonnet, Scope: breaker.ScopeModel, State: breaker.HalfOpen,
		Reason: "timeout: silent for 20 s", Until: now.Add(9 * time.Second), Cooldown: time.Minute, Failures: 11, Results: 20, Window: 20,
		Ring: append(make([]bool, 9), true, true, true, true, true, true, true, true, true, true, true),
	}, {
		Key: local, Scope: breaker.ScopeModel, State: breaker.Closed, Cooldown: 30 * time.Second, Results: 20, Window: 20, Ring: make([]bool, 20), Judged: 50, Invalid: 4,
	}}
	return batches, breakers
}

// someGuards are those of aNight's producers; ada's is open.
func someGuards(now time.Time) []limit.GuardStatus {
	const dollar = 1_000_000_000
	return []limit.GuardStatus{
		{Producer: limit.AllProducers, Calls: 9000, USD: 41 * dollar},
		{Producer: "ada", Open: true, Calls: 1000, USD: dollar / 2, Limits: limit.GuardLimits{Calls: 1000, USD: 20 * dollar}, Until: now.Add(7 * time.Minute), Waiting: 3},
		{Producer: "nightly-report", Calls: 7990, USD: 41 * dollar, Limits: limit.GuardLimits{Calls: 50_000}},
		{Producer: "system", Calls: 10},
	}
}

// aFleet is two workers, of which one is the keeper.
func aFleet(now time.Time) dashboard.FleetStatus {
	worker := func(id string, active int) dashboard.Worker {
		return dashboard.Worker{
			ID: id, Host: "night-1", PID: 4711, Version: "v1.4.0", ConfigHash: "3f9c1a22", StartedAt: now.Add(-3 * time.Hour),
			Queues: []dashboard.WorkerQueue{{Name: "overnight", Slots: 50, Active: active}},
		}
	}
	return dashboard.FleetStatus{
		KeeperID: "night-1-4711-a1b2c3", KeeperUntil: now.Add(9 * time.Second), ConfigHash: "3f9c1a22",
		Workers: []dashboard.Worker{worker("night-1-4711-a1b2c3", 31), worker("night-2-99-d4e5f6", 12)},
		Queues:  []dashboard.Queue{{Name: "overnight", Ladder: "nightly", Workers: 2, Slots: 100, Active: 43, Out: 160, Waiting: 96, Backlog: 4334, Open: true}},
	}
}

// someMinutes are three hours with an outage.
func someMinutes(now time.Time) (all []dashboard.Minute) {
	for i := range 180 {
		m := dashboard.Minute{At: now.Add(time.Duration(i-180) * time.Minute).Truncate(time.Minute), Lines: int64(70 + 23*(i%7) - i%31), Cost: provider.Dollars(0.2 + 0.01*float64(i%9))}
		if i > 90 && i < 125 {
			m.Lines, m.Cost, m.Waste = int64(i%3), provider.Dollars(0.01), provider.Dollars(0.005)
		}
		all = append(all, m)
	}
	return all
}

// someLadders is the ladder of aNight.
func someLadders() []dashboard.Ladder {
	return []dashboard.Ladder{{
		Ladder: config.Ladder{
			Name: "nightly", Goal: "order", Patience: 5 * time.Minute, Quality: config.Quality{Invalid: 25, Action: "demote"},
			Rungs: []config.Rung{{Model: premium.Model}, {Model: sonnet.Model}, {Model: local.Model, After: time.Hour}, {Text: "No answer.", AtDeadline: true}},
		},
		Queues: []string{"overnight"},
	}}
}

// aStory is of a line that was deferred and then answered by another model.
func aStory(now time.Time) batch.Story {
	return batch.Story{
		Batch: "summaries-2026-10-05", BatchState: batch.Waiting, Line: 7, CustomID: "row-7", Stage: batch.StageFinished, Outcome: batch.Succeeded,
		StatusCode: 200, FinishedAt: new(now.Add(-time.Minute)), Deferrals: 1, CostUSD: provider.Dollars(0.0021), Model: sonnet.Model, Degraded: true,
		Attempts: []provider.Call{
			{Model: premium.Model, Kind: provider.Unavailable, StartedAt: now.Add(-9 * time.Minute), LatencyMS: 812, RequestID: "req_1", Detail: "unavailable: status 503: the provider failed"},
			{Model: premium.Model, Kind: batch.KindSkipped, StartedAt: now.Add(-2 * time.Minute), Detail: "its breaker is open"},
			{Model: sonnet.Model, Kind: provider.OK, StartedAt: now.Add(-2 * time.Minute), LatencyMS: 3214, Cost: provider.Dollars(0.0021), RequestID: "req_2", Usage: provider.Usage{InputTokens: 412, OutputTokens: 93}},
		},
	}
}

// fill puts the night into a dashboard.
func (b *bundle) fill() {
	b.batches.list, b.breakers.list = aNight(now)
	b.guards.list, b.minutes.list, b.batches.story = someGuards(now), someMinutes(now), aStory(now)
	b.batches.recent = []batch.EndedLine{
		{Line: 8371, Outcome: batch.Succeeded, At: now.Add(-2 * time.Second)},
		{Line: 8369, Outcome: batch.Failed, Code: "retries_exhausted", At: now.Add(-3 * time.Second)},
		{Line: 8365, Outcome: batch.Succeeded, Generation: 1, At: now.Add(-3 * time.Second)},
		{Line: 8201, Outcome: batch.Failed, Code: "invalid_request", At: now.Add(-30 * time.Second)},
	}
	model := func(k breaker.Key) limit.Model { return limit.Model{Provider: k.Provider, Model: k.Model} }
	b.paces.list = []limit.Pace{
		{Model: model(premium), Limits: limit.Limits{RPM: 500}, Rate: 500_000, Concurrency: 50, InFlight: 4, Parked: 30 * time.Second},
		{Model: model(sonnet), Limits: limit.Limits{RPM: 900}, Rate: 582_500, LearnedRate: 582_500, InFlight: 1200, Waiting: 7, Calls: 990, Limited: 10},
		{Model: model(local), Starting: true},
	}
	b.figures.list = []dashboard.Figures{
		{Known: true, Success: 0.412, Latency: 1840 * time.Millisecond}, {Known: true, Success: 0.93, Latency: 3210 * time.Millisecond}, {Known: true, Success: 1, Latency: 640 * time.Millisecond},
	}
}

// withNight names the breakers and ladders of aNight.
func withNight(o *dashboard.Options) {
	o.Keys, o.Ladders = []breaker.Key{openaiKey, premium, sonnet, local}, someLadders()
}
