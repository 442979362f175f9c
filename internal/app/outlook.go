package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/limit"
)

// Outlook is what the configuration alone says of the limits of a batch.
func Outlook(cfg *config.Config, d batch.Description, now time.Time) batch.Outlook {
	guard := guardOptions(cfg, nil)
	l := guard.Limits(d.Producer)
	o := batch.Outlook{Now: now, Paces: map[string]limit.Pace{}, NotBefore: d.NotBefore, Hours: cfg.HoursOf(d.Queue), Guard: batch.GuardOutlook{
		Producer: d.Producer, Deadline: d.Deadline, Allowance: d.Allowance,
		Calls: batch.Hourly{Limit: l.Calls}, USD: batch.Hourly{Limit: l.USD}, Global: batch.Hourly{Limit: guard.Global.Calls},
	}}
	for _, key := range cfg.RungModels(queueOf(cfg, d).Ladder) {
		o.Paces[key] = limit.Pace{Limits: paceLimits(cfg)(paceModel(cfg, key))}
	}
	return o
}

func queueOf(cfg *config.Config, d batch.Description) config.Queue {
	q, _ := cfg.Queue(d.Queue) // one that is gone has no ladder
	return q
}

// Outlook adds to what the configuration says what the fleet knows: learned
// limits, latencies, the slots of the workers that run, the guard's counts and
// the lines of other batches.
func (c *Conn) Outlook(ctx context.Context, d batch.Description, now time.Time) (batch.Outlook, error) {
	o := Outlook(c.Config, d, now)
	o.Learned = true
	err := errors.Join(c.addPaces(ctx, &o), c.addSlots(ctx, &o, d), c.addOthers(ctx, &o, d), c.addGuard(ctx, &o, d))
	if err != nil {
		return o, fmt.Errorf("read the limits of batch %s: %w", d.ID, err)
	}
	return o, nil
}

func (c *Conn) addPaces(ctx context.Context, o *batch.Outlook) error {
	var models []limit.Model
	for key := range o.Paces {
		models = append(models, paceModel(c.Config, key))
	}
	paces, err := c.Pacer.List(ctx, models)
	for _, p := range paces {
		o.Paces[p.Model.Model] = p
	}
	return err
}

func (c *Conn) addSlots(ctx context.Context, o *batch.Outlook, d batch.Description) error {
	workers, err := c.Fleet.Workers(ctx)
	for _, w := range workers {
		o.Slots += w.Queues[d.Queue].Slots
	}
	return err
}

// addOthers counts the lines that are outstanding beside the batch: those of the
// queue are ahead of it, those of the producer and of all draw on the guard.
func (c *Conn) addOthers(ctx context.Context, o *batch.Outlook, d batch.Description) error {
	all, err := c.Batches.List(ctx)
	for _, s := range all {
		if s.ID == d.ID || s.State == batch.Done || s.State == batch.Cancelling {
			continue
		}
		if s.Queue == d.Queue {
			o.Ahead += s.Outstanding
		}
		o.Guard.Global.Others += s.Outstanding
		if s.Producer == d.Producer { // without those that what is left of an allowance pays for
			o.Guard.Calls.Others += max(0, s.Outstanding-max(0, s.Allowance-s.Calls))
		}
	}
	return err
}

func (c *Conn) addGuard(ctx context.Context, o *batch.Outlook, d batch.Description) error {
	all, err := c.Guard.List(ctx)
	for _, s := range all {
		switch s.Producer {
		case d.Producer:
			o.Guard.Calls.Used, o.Guard.USD.Used = s.Calls, s.USD
		case limit.AllProducers:
			o.Guard.Global.Used = s.Calls
		default:
			continue
		}
		if s.Open && s.Until.After(o.Guard.Until) {
			o.Guard.Until = s.Until
		}
	}
	return err
}

// paceLimits are what the configuration says of each model.
func paceLimits(cfg *config.Config) func(limit.Model) limit.Limits {
	return func(m limit.Model) limit.Limits {
		l := cfg.Models[m.Model].Limits
		return limit.Limits{RPM: l.RPM, TPM: l.TPM, Concurrency: l.Concurrency}
	}
}

func paceModel(cfg *config.Config, key string) limit.Model {
	return limit.Model{Provider: cfg.Models[key].Provider, Model: key}
}
