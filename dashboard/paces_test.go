package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/dashboard"
	"nightshift/limit"
)

// fakePaces answers from memory.
type fakePaces struct {
	list []limit.Pace
	err  error
}

func (f *fakePaces) List(context.Context, []limit.Model) ([]limit.Pace, error) { return f.list, f.err }

func TestPageShowsPaces(t *testing.T) {
	paces := &fakePaces{}
	var keys []breaker.Key
	b := setup(t, func(o *dashboard.Options) {
		_, all := aNight(now)
		for _, s := range all {
			keys = append(keys, s.Key)
		}
		o.Paces, o.Keys = paces, keys
	})
	_, b.breakers.list = aNight(now)
	model := func(i int) limit.Model { return limit.Model{Provider: keys[i].Provider, Model: keys[i].Model} }
	paces.list = []limit.Pace{
		{Model: model(0), Limits: limit.Limits{RPM: 500}, Rate: 500_000, Concurrency: 50, InFlight: 4, Parked: 30 * time.Second},
		{Model: model(1), Limits: limit.Limits{RPM: 900}, Rate: 582_500, LearnedRate: 582_500, InFlight: 1200, Waiting: 7, Calls: 990, Limited: 10},
		{Model: model(2), Starting: true},
	}
	wantAll(t, text(b.get(t, "/").body),
		"rate limited until 2026-10-05 23:10:30 UTC in 30 s",
		"Next cooldown 2 min Pace 500 a minute, as configured In flight 4 of 50 Waiting 0 Refused 0 of 0",
		"Next cooldown 1 min Pace 583 a minute, learned In flight 1,200 Waiting 7 Refused 10 of 1,000",
		"Pace finding out In flight 0",
	)
	paces.list, paces.err = nil, errors.New("down")
	got := b.get(t, "/")
	if page := text(got.body); got.status != http.StatusOK || strings.Contains(page, "Pace") {
		t.Errorf("status %d of a page without paces:\n%s", got.status, page)
	}
}
