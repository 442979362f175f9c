package dashboard

import (
	"context"
	"slices"
	"sync"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/limit"
)

// part is something that pages are made of, as people name it.
type part string

// The parts of pages.
const (
	partBatches  part = "batches"
	partBreakers part = "breakers"
	partGuards   part = "guards"
	partPaces    part = "paces"
	partFigures  part = "figures of the models"
	partFleet    part = "workers"
	partMinutes  part = "figures of the night"
)

// seen is the state that a page is made of, as far as it could be read.
type seen struct {
	now      time.Time
	doors    Doors
	batches  []batch.Status
	breakers []breaker.Status
	guards   []limit.GuardStatus
	paces    map[string]*paceView // by model
	figures  map[string]Figures   // likewise
	fleet    FleetStatus
	minutes  []Minute

	mu      sync.Mutex
	missing []part // Redis did not answer for these
}

// Lacks says whether a part could not be read.
func (s *seen) Lacks(p part) bool { return slices.Contains(s.missing, p) }

// see reads the parts of a page side by side: each is a few round trips, and
// people wait for all of them.
func (d *Dashboard) see(ctx context.Context, parts ...part) *seen {
	s := &seen{now: d.opts.Now(), doors: Doors{
		Breakers: sync.OnceValues(func() ([]breaker.Status, error) { return d.opts.Breakers.List(ctx, d.opts.Keys) }),
		Guards:   sync.OnceValues(func() ([]limit.GuardStatus, error) { return d.opts.Guards.List(ctx) }),
	}}
	readers := map[part]func(context.Context, *seen) error{
		partBatches:  d.seeBatches,
		partBreakers: d.seeBreakers,
		partGuards:   d.seeGuards,
		partPaces:    d.seePaces,
		partFigures:  d.seeFigures,
		partFleet:    d.seeFleet,
		partMinutes:  d.seeMinutes,
	}
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() {
			if err := readers[p](ctx, s); err != nil {
				d.opts.Logger.Warn("read state for the dashboard", "part", string(p), "error", err)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.missing = append(s.missing, p)
			}
		})
	}
	wg.Wait()
	slices.Sort(s.missing)
	return s
}

func (d *Dashboard) seeBatches(ctx context.Context, s *seen) (err error) {
	s.batches, err = d.opts.Batches.List(ctx, s.doors)
	return err
}

func (d *Dashboard) seeBreakers(_ context.Context, s *seen) (err error) {
	s.breakers, err = s.doors.Breakers()
	return err
}

func (d *Dashboard) seeGuards(_ context.Context, s *seen) (err error) {
	s.guards, err = s.doors.Guards()
	return err
}

func (d *Dashboard) seeFleet(ctx context.Context, s *seen) (err error) {
	s.fleet, err = d.opts.Fleet.Fleet(ctx)
	return err
}

func (d *Dashboard) seeMinutes(ctx context.Context, s *seen) (err error) {
	s.minutes, err = d.opts.Minutes.Minutes(ctx, s.now.Add(-nightSpan))
	return err
}

func (d *Dashboard) seePaces(ctx context.Context, s *seen) error {
	s.paces = map[string]*paceView{}
	var models []limit.Model
	for _, k := range d.models() {
		models = append(models, limit.Model{Provider: k.Provider, Model: k.Model})
	}
	if len(models) == 0 {
		return nil
	}
	all, err := d.opts.Paces.List(ctx, models)
	for _, p := range all {
		s.paces[p.Model.Model] = &paceView{p, s.now}
	}
	return err
}

func (d *Dashboard) seeFigures(ctx context.Context, s *seen) error {
	s.figures = map[string]Figures{}
	models := d.models()
	if len(models) == 0 {
		return nil
	}
	all, err := d.opts.Averages.Figures(ctx, models)
	for i, f := range all {
		s.figures[models[i].Model] = f
	}
	return err
}

// models are the keys of the models' breakers.
func (d *Dashboard) models() (models []breaker.Key) {
	for _, k := range d.opts.Keys {
		if k.Scope() == breaker.ScopeModel {
			models = append(models, k)
		}
	}
	return models
}
