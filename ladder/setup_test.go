package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)

// bundle is a ladder over fakes in virtual time: only sleeping and calls take any.
type bundle struct {
	t         testing.TB
	mu        sync.Mutex
	now       time.Time
	slept     []time.Duration
	onSleep   func()
	models    map[string]config.Model
	providers map[string]config.Provider
	breakers  *fakeBreakers
	pace      *fakePace
	guard     *fakeGuard
	callers   map[string]*fakeCaller
	journal   *fakeJournal
	cache     AnswerStore
	events    []CallEvent
	avoided   []breaker.Key
	log       strings.Builder
}

// setup makes models of provider p (a premium limit of 30 s, 100 + 10 tokens a
// USD per million) for every name.
func setup(t testing.TB, names ...string) *bundle {
	b := &bundle{t: t, now: epoch, models: map[string]config.Model{}, callers: map[string]*fakeCaller{}}
	b.breakers = &fakeBreakers{open: map[string]*breaker.OpenError{}, reports: map[string][]breaker.Report{}, out: map[uint64]bool{}}
	b.pace = &fakePace{b: b, until: map[string]time.Time{}, out: map[string]limit.Ask{}}
	b.guard = &fakeGuard{out: map[string]limit.Charge{}}
	b.journal = &fakeJournal{}
	for _, n := range names {
		b.add(n)
	}
	return b
}

func (b *bundle) add(name string) {
	key := "p/" + name
	b.models[key] = config.Model{
		Key: key, Provider: "p", Name: name, Tier: "premium", FirstToken: 30 * time.Second,
		Price: &config.Price{Input: 1, Output: 2},
	}
	b.callers[key] = &fakeCaller{b: b, takes: time.Second, reply: answers}
}

// script makes a model answer its calls in this order, the last for ever.
func (b *bundle) script(name string, errs ...*provider.Error) {
	c := b.callers["p/"+name]
	c.reply = func(_ context.Context, n int, r provider.Request) (provider.Answer, error) {
		e := errs[min(n, len(errs)-1)]
		if e == nil {
			return answers(context.Background(), n, r)
		}
		return provider.Answer{}, e
	}
}

func (b *bundle) ladder(c config.Ladder) *Ladder {
	b.t.Helper()
	callers := map[string]Caller{}
	for k, v := range b.callers {
		callers[k] = v
	}
	l, err := New(Options{
		Ladder: c, Models: b.models, Providers: b.providers, Callers: callers, Gate: b.gate(b.breakers),
		Cache: b.cache, Sleeper: b, Now: b.Now, Rand: func() float64 { return 0.5 }, Observer: b, Logger: testLogger(&b.log),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

// attempt runs one over rungs of the named models with the given tries.
func (b *bundle) attempt(tries int, names ...string) Outcome {
	b.t.Helper()
	return b.run(b.ladder(nightly(tries, names...)), line())
}

func (b *bundle) run(l *Ladder, r Request) Outcome {
	b.t.Helper()
	out := l.whole(context.Background(), r, b.journal)
	b.settled()
	return out
}

// settled checks what must hold after every attempt.
func (b *bundle) settled() {
	b.t.Helper()
	for id := range b.breakers.out {
		b.t.Errorf("ticket %d was neither reported nor released", id)
	}
	for id := range b.pace.out {
		b.t.Errorf("slot or place %s was neither settled nor given back", id)
	}
	for id, c := range b.guard.out {
		b.t.Errorf("charge %s of %s was neither settled nor given back", id, c.Producer)
	}
}

func nightly(tries int, names ...string) config.Ladder {
	c := config.Ladder{Name: "nightly", Patience: 5 * time.Minute, OnFilter: "fail"}
	for _, n := range names {
		c.Rungs = append(c.Rungs, config.Rung{Model: "p/" + n, Tries: tries})
	}
	return c
}

func line() Request {
	return Request{
		Batch: "b1", Line: 7, CustomID: "row-7", Endpoint: "/v1/chat/completions", Retries: 5,
		Body:     json.RawMessage(`{"model":"x","messages":[{"role":"user","content":"hi"}]}`),
		Metadata: json.RawMessage(`{"title":"Moby Dick","year":1851}`),
	}
}

func (b *bundle) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bundle) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// Sleep implements Sleeper.
func (b *bundle) Sleep(ctx context.Context, d time.Duration) error {
	b.slept = append(b.slept, d)
	if b.onSleep != nil {
		b.onSleep()
		<-ctx.Done()
		return ctx.Err()
	}
	b.pass(d)
	return ctx.Err()
}

// Called and Avoided implement Observer.
func (b *bundle) Called(e CallEvent)    { b.events = append(b.events, e) }
func (b *bundle) Avoided(k breaker.Key) { b.avoided = append(b.avoided, k) }
func (b *bundle) calls(name string) int { return len(b.callers["p/"+name].requests) }
func (b *bundle) open(name string, d time.Duration) {
	b.breakers.open["p/"+name] = &breaker.OpenError{State: breaker.Open, RetryAfter: d}
}

// fakeCaller is a model that takes a while and answers by its script.
type fakeCaller struct {
	b        *bundle
	takes    time.Duration
	requests []provider.Request
	reply    func(ctx context.Context, n int, r provider.Request) (provider.Answer, error)
}

// Call implements Caller. A model that takes longer than its limits times out:
// it is silent to its end.
func (c *fakeCaller) Call(ctx context.Context, r provider.Request) (provider.Answer, error) {
	n := len(c.requests)
	c.requests = append(c.requests, r)
	limit, by := r.Timeout, context.DeadlineExceeded
	if r.FirstToken > 0 && r.FirstToken < limit {
		limit, by = r.FirstToken, provider.ErrStalled
	}
	if c.takes > limit {
		c.b.pass(limit)
		return provider.Answer{}, &provider.Error{Kind: provider.Timeout, Message: "silent", Err: by}
	}
	c.b.pass(c.takes)
	return c.reply(ctx, n, r)
}

func answers(_ context.Context, n int, r provider.Request) (provider.Answer, error) {
	return provider.Answer{
		StatusCode: 200, RequestID: fmt.Sprintf("req-%s-%d", r.Model, n), Body: json.RawMessage(`{"ok":true}`),
		Usage: provider.Usage{InputTokens: 100, OutputTokens: 10}, FinishReason: "stop",
	}, nil
}

// fakeBreakers admits what is not open and notes what it is told.
type fakeBreakers struct {
	open     map[string]*breaker.OpenError
	down     error
	reports  map[string][]breaker.Report
	released int
	out      map[uint64]bool
	n        uint64
}

func (f *fakeBreakers) Admit(ctx context.Context, k breaker.Key, _ ...breaker.AdmitOption) (breaker.Ticket, error) {
	if err := errors.Join(f.down, ctx.Err()); err != nil {
		return breaker.Ticket{}, err
	}
	if o := f.open[k.Model]; o != nil {
		return breaker.Ticket{}, fmt.Errorf("admit: %w", o)
	}
	f.n++
	t := breaker.Ticket{Key: k, ID: f.n}
	f.out[t.ID] = true
	return t, nil
}

func (f *fakeBreakers) Report(ctx context.Context, t breaker.Ticket, r breaker.Report) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	delete(f.out, t.ID)
	f.reports[t.Key.Model] = append(f.reports[t.Key.Model], r)
	return nil
}

func (f *fakeBreakers) Release(ctx context.Context, t breaker.Ticket) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	delete(f.out, t.ID)
	f.released++
	return nil
}

// outcomes are the outcomes that a model's breaker was told.
func (f *fakeBreakers) outcomes(name string) []breaker.Outcome {
	var out []breaker.Outcome
	for _, r := range f.reports["p/"+name] {
		out = append(out, r.Outcome)
	}
	return out
}

// fakeJournal keeps how many calls each checkpoint wrote.
type fakeJournal struct {
	wrote []int
	err   error
}

func (f *fakeJournal) Checkpoint(_ context.Context, p Progress) error {
	f.wrote = append(f.wrote, len(p.Calls))
	return f.err
}

func down() *provider.Error {
	return &provider.Error{Kind: provider.Unavailable, StatusCode: 503, Message: "overloaded"}
}

func kinds(p Progress) []provider.Kind {
	var out []provider.Kind
	for _, c := range p.Calls {
		out = append(out, c.Kind)
	}
	return out
}

func wantEnd(t testing.TB, out Outcome, end End, code string) {
	t.Helper()
	if out.End != end || out.Code != code {
		t.Fatalf("ended in %d with code %q (%s, err %v), want %d with %q", out.End, out.Code, out.Message, out.Err, end, code)
	}
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
