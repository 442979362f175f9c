package dashboard

import (
	"context"
	"fmt"
	"time"

	"nightshift/breaker"
	"nightshift/limit"
)

// Paces is what the dashboard needs of package limit about models.
type Paces interface {
	// List returns how fast the models are called, in their order.
	List(ctx context.Context, models []limit.Model) ([]limit.Pace, error)
}

// paceView is how fast a model is called.
type paceView struct {
	limit.Pace
	now time.Time
}

// readPaces returns the paces by model. They only add to the breakers' cards, so
// where they cannot be read the log says so.
func (d *Dashboard) readPaces(ctx context.Context, now time.Time) map[string]*paceView {
	views := map[string]*paceView{}
	var models []limit.Model
	for _, k := range d.opts.Keys {
		if k.Scope() == breaker.ScopeModel {
			models = append(models, limit.Model{Provider: k.Provider, Model: k.Model})
		}
	}
	if d.opts.Paces == nil || len(models) == 0 {
		return views
	}
	all, err := d.opts.Paces.List(ctx, models)
	if err != nil {
		d.opts.Logger.Warn("list paces for the dashboard", "error", err)
	}
	for _, p := range all {
		views[p.Model.Model] = &paceView{p, now}
	}
	return views
}

// Until is when the model's park ends; zero: it is not parked.
func (p *paceView) Until() (until time.Time) {
	if p.Parked > 0 {
		until = p.now.Add(p.Parked)
	}
	return until
}

// Speed tells the rate that counts, and where it is from.
func (p *paceView) Speed() string {
	if p.Rate <= 0 {
		if p.Starting {
			return "finding out"
		}
		return "no limit met"
	}
	from := ""
	switch p.Rate {
	case int64(p.Limits.RPM) * 1000:
		from = ", as configured"
	case p.LearnedRate:
		from = ", learned"
	case p.ToldRate:
		from = ", as told"
	}
	return rate(float64(p.Rate)/1000) + from
}

// Flight tells the calls in flight, and how many there may be.
func (p *paceView) Flight() string {
	if p.Concurrency <= 0 {
		return count(p.InFlight)
	}
	return fmt.Sprintf("%s of %s", count(p.InFlight), count(p.Concurrency))
}

// Asked counts the calls that the provider was asked for, ever.
func (p *paceView) Asked() int64 { return p.Calls + p.Limited }
