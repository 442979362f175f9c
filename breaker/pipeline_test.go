package breaker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nightshift/internal/convoy"
	"nightshift/internal/redistest"
)

// inPipelines is a store whose admissions and reports ride in parties of others,
// with a memory that follows, as a gate has it.
type inPipelines struct {
	*Redis
	memory *Fallback
}

// ride sends what is put into a party.
func (s inPipelines) ride(ctx context.Context, put func(*convoy.Party) func() error) error {
	var p convoy.Party
	answer := put(&p)
	convoy.New(s.rdb).Send(ctx, &p)
	return answer()
}

func (s inPipelines) Admit(ctx context.Context, key Key, opts ...AdmitOption) (t Ticket, err error) {
	err = s.ride(ctx, func(p *convoy.Party) func() error {
		answer := s.AdmitIn(p, key, opts...)
		return func() (err error) { t, err = answer(); return err }
	})
	return s.memory.Heard(key, t, err)
}

func (s inPipelines) Report(ctx context.Context, t Ticket, r Report) error {
	err := s.ride(ctx, func(p *convoy.Party) func() error { return s.ReportIn(p, t, r) })
	return errors.Join(err, s.memory.Told(ctx, t, r, err == nil))
}

func (s inPipelines) Release(ctx context.Context, t Ticket) error {
	return s.ride(ctx, func(p *convoy.Party) func() error { return s.ReleaseIn(p, t) })
}

func TestAPartyThatWasNeverSentIsNoDecision(t *testing.T) {
	b := &bundle{T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000), key: Key{Provider: "p", Model: "p/m"}}
	r := b.onRedis(redistest.Client(t))
	var p convoy.Party
	admitted := r.AdmitIn(&p, b.key)
	reported := r.ReportIn(&p, Ticket{Key: b.key, ID: 1}, Report{Outcome: Failure})
	var open *OpenError
	if _, err := admitted(); err == nil || errors.As(err, &open) {
		t.Errorf("admitted: %v", err)
	}
	if err := reported(); err == nil {
		t.Error("a report that nobody heard was taken")
	}
}

func TestAKeyWithoutAModelPutsNothingIntoAParty(t *testing.T) {
	b := &bundle{T: t, settings: Settings{}.WithDefaults()}
	r := b.onRedis(redistest.Client(t))
	var p convoy.Party
	if _, err := r.AdmitIn(&p, Key{Provider: "p"})(); !errors.Is(err, ErrNoModel) || p.Len() != 0 {
		t.Errorf("%d calls, %v", p.Len(), err)
	}
}

func TestAFallbackTakesWhatAPipelineCouldNotBring(t *testing.T) {
	l := alone(t)
	f := l.store.(*Fallback)
	l.cut.broken = true
	l.admit() // nobody answers
	for range 11 {
		ticket, err := f.Alone(t.Context(), l.key)
		if err != nil || !ticket.lone() {
			t.Fatalf("%+v, %v", ticket, err)
		}
		if err := f.Told(t.Context(), ticket, Report{Outcome: Failure, Reason: "status 503"}, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Alone(t.Context(), l.key); err == nil {
		t.Error("eleven failures open the memory")
	}
	l.cut.broken = false
	l.pass(time.Second)
	_, _ = l.store.List(t.Context(), []Key{l.key})
	list, err := l.others.List(t.Context(), []Key{l.key})
	if err != nil || list[0].State != Open || !strings.Contains(list[0].Reason, "503") {
		t.Errorf("the others know %+v, %v", list, err)
	}
}
