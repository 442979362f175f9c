package tasks

import (
	"context"
	"maps"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/ladder"
)

// states is a breaker store by what is not closed.
type states map[breaker.Key]breaker.Status

func (s states) List(_ context.Context, keys []breaker.Key) ([]breaker.Status, error) {
	var all []breaker.Status
	for _, k := range keys {
		st := breaker.Status{State: breaker.Closed}
		if is, ok := s[k]; ok {
			st = is
		}
		st.Key = k
		all = append(all, st)
	}
	return all, nil
}

func TestAModelUnderAnOpenParentIsShut(t *testing.T) {
	a := breaker.Key{Provider: "p", Model: "p/a"}
	east := breaker.Key{Provider: "p", Model: "p/b", Region: "east"}
	other := breaker.Key{Provider: "q", Model: "q/c"}
	open := breaker.Status{State: breaker.Open}
	b := BreakerKeys{
		Store: states{a.Parent(): open, other: open},
		Keys:  map[string]breaker.Key{"p/a": a, "p/b": east, "q/c": other},
	}
	doors, err := b.Doors(t.Context(), []string{"p/a", "p/b", "q/c", "gone"})
	if want := map[string]Door{"p/a": {}, "p/b": {Open: true}, "q/c": {}}; err != nil || !maps.Equal(doors, want) {
		t.Errorf("doors %v, %v, want %v", doors, err, want)
	}
}

func TestWhichProbeALineHasToBe(t *testing.T) {
	until := time.UnixMilli(1000)
	closed := breaker.Status{Key: breaker.Key{Provider: "p", Model: "p/a"}, State: breaker.Closed}
	shut, due := closed, closed
	shut.State, due.State = breaker.Open, breaker.Open
	due.TaskDue, due.Until = true, until
	up := func(s breaker.Status) breaker.Status { s.Key = s.Key.Parent(); return s }
	own, parents := Probe{"p/a", breaker.Open, until}, Probe{"p", breaker.Open, until}
	for name, c := range map[string]struct {
		model, parent breaker.Status
		want          Door
	}{
		"both closed":                 {closed, closed, Door{Open: true}},
		"the model is due":            {due, closed, Door{Probe: own}},
		"the model is not":            {shut, closed, Door{}},
		"the parent is due":           {closed, due, Door{Probe: parents}},
		"both are due":                {due, due, Door{Probe: parents}},
		"the parent is not":           {due, shut, Door{}},
		"the model is shut by itself": {shut, due, Door{}},
	} {
		if got := door(c.model, up(c.parent)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// One line a probe, whatever the number of models and lines that wait for it,
// and none of those that must not be one while another waits.
func TestOneLineIsWokenForAProbe(t *testing.T) {
	waits := func(line int64, open string, noProbe bool) batch.OutEntry {
		return batch.OutEntry{Ref: batch.Ref{Batch: "b", Line: line}, Wait: batch.Wait{Open: open, NoProbe: noProbe}}
	}
	parent, model := Probe{Breaker: "p"}, Probe{Breaker: "q/c"}
	doors := map[string]Door{"p/a": {Probe: parent}, "p/b": {Probe: parent}, "q/c": {Probe: model}, "q/d": {}, "q/e": {Open: true}}
	got := map[Probe]int64{}
	for p, e := range probers([]batch.OutEntry{
		waits(1, "q/d", false), waits(2, "p/a q/c", true), waits(3, "q/d p/b", false), waits(4, "p/a", false), waits(5, "q/e gone", false),
	}, doors) {
		got[p] = e.Ref.Line
	}
	if want := map[Probe]int64{parent: 3, model: 2}; !maps.Equal(got, want) {
		t.Errorf("woken %v, want %v", got, want)
	}
}

// A line that was woken and refused again until the same second is woken again
// when its breaker closes again.
func TestALineIsWokenForEachOfItsDeferrals(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if r.seen.add(q.Line) < 4 {
			return deferred(q, "sim/a", until)
		}
		return answer(q)
	}, func(o *Options) {
		o.Breakers = &doors{open: map[string]bool{"sim/a": false}}
		o.Random = func() float64 { return 0 }
	})
	if s := r.done("b", 30*time.Second); s.Succeeded != 1 || s.Deferrals != 3 {
		t.Errorf("status: %+v", s)
	}
}

// A task that is active still is about to be put back; only then can it be woken.
func TestAnActiveTaskIsNotAwake(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if r.seen.add(q.Line) == 1 {
			close(begun)
			<-goOn
			return deferred(q, "sim/a", time.Now().Add(time.Hour))
		}
		return answer(q)
	}, func(o *Options) { o.Breakers = &doors{open: map[string]bool{"sim/a": true}} })
	<-begun
	q, ref := newQueues(r.client(3)), batch.Ref{Batch: "b", Line: 1}
	if awake, err := q.wake("q", ref); awake || err != nil {
		t.Errorf("active: awake %t, %v", awake, err)
	}
	close(goOn)
	r.until(20*time.Second, "it is woken once it waits", func() bool {
		awake, err := q.wake("q", ref)
		return err == nil && awake
	})
	r.done("b", 20*time.Second)
}
