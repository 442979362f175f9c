package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/dashboard"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/tasks"
)

func (a *App) buildDashboard() error {
	cfg, conn := a.conn.Config, a.conn
	token, err := cfg.Dashboard.Token(os.LookupEnv)
	if err != nil {
		return err
	}
	d, err := dashboard.New(dashboard.Options{
		Batches: pageBatches{conn.Batches, conn}, Breakers: conn.Breakers, Guards: pageGuards{conn}, Paces: conn.Pacer,
		Averages: pageAverages{ladder.NewRedisAverages(conn.Redis.Breaker())}, Fleet: pageFleet{conn}, Minutes: pageMinutes{conn.Night},
		Changes: pageChanges{conn}, Keys: conn.Levels, Settings: conn.Numbers, Ladders: pageLadders(cfg), Redis: conn.Redis,
		DecodeTask: tasks.Decode, ShowContent: cfg.Dashboard.ShowContent, Rehearsal: a.opts.Rehearsal, Location: cfg.Location(), Logger: a.opts.Logger,
		Addr: cfg.Dashboard.Addr, Token: token, BasePath: cfg.Dashboard.BasePath, CertFile: cfg.Dashboard.TLS.CertFile, KeyFile: cfg.Dashboard.TLS.KeyFile,
		QueuesWrite: cfg.Dashboard.Queues == config.QueuesWrite,
	})
	if err != nil {
		return err
	}
	a.servers = append(a.servers, &server{
		name: "dashboard", addr: cfg.Dashboard.Addr, base: cfg.Dashboard.BasePath, tls: d.TLS(), handler: a.health.before(d), close: d.Close, ending: d.EndStreams,
	})
	return nil
}

// pageBatches are batches as they are now, for the pages as for the commands.
type pageBatches struct {
	*batch.Redis
	conn *Conn
}

// List returns all batches, newest first.
func (b pageBatches) List(ctx context.Context, d dashboard.Doors) ([]batch.Status, error) {
	return b.conn.list(ctx, doors{d.Breakers, d.Guards})
}

// Status returns one batch.
func (b pageBatches) Status(ctx context.Context, id string) (batch.Status, error) {
	return b.conn.Status(ctx, id)
}

// pageGuards are the guards, with that of all producers for what it counted.
type pageGuards struct{ conn *Conn }

// List returns the guards of all producers that have calls in the hour or limits of
// their own, and that of all of them.
func (g pageGuards) List(ctx context.Context) ([]limit.GuardStatus, error) {
	list, err := g.conn.Guard.List(ctx)
	if err != nil {
		return nil, err
	}
	limits := guardOptions(g.conn.Config, nil)
	for name := range g.conn.Config.Guard.Producers {
		if !slices.ContainsFunc(list, func(s limit.GuardStatus) bool { return s.Producer == name }) {
			list = append(list, limit.GuardStatus{Producer: name, Limits: limits.Limits(name)})
		}
	}
	return list, nil
}

// pageAverages are the figures of the models.
type pageAverages struct{ store ladder.AverageStore }

// Figures returns those of models, in their order.
func (a pageAverages) Figures(ctx context.Context, models []breaker.Key) ([]dashboard.Figures, error) {
	all, err := a.store.Merge(ctx, models, make([]ladder.Averages, len(models))) // without samples: only read
	if err != nil {
		return nil, err
	}
	figures := make([]dashboard.Figures, len(all))
	for i, x := range all {
		if x.Success.Weight > 0 {
			figures[i].Known, figures[i].Success = true, x.Success.Sum/x.Success.Weight
		}
		if x.Latency.Weight > 0 {
			figures[i].Latency = time.Duration(x.Latency.Sum / x.Latency.Weight * float64(time.Millisecond))
		}
	}
	return figures, nil
}

// pageMinutes are the minutes of the night.
type pageMinutes struct{ night *tasks.Night }

// Minutes returns those since a time.
func (m pageMinutes) Minutes(ctx context.Context, since time.Time) ([]dashboard.Minute, error) {
	all, err := m.night.Minutes(ctx, since)
	var minutes []dashboard.Minute
	for _, x := range all {
		minutes = append(minutes, dashboard.Minute{At: x.At, Lines: x.Ended, Calls: x.Calls, Cost: x.Cost, Waste: x.Wasted})
	}
	return minutes, err
}

// pageLadders are the ladders of the configuration, by name.
func pageLadders(cfg *config.Config) []dashboard.Ladder {
	queues := map[string][]string{}
	for _, q := range cfg.Queues {
		queues[q.Ladder] = append(queues[q.Ladder], q.Name)
	}
	var all []dashboard.Ladder
	for name, l := range cfg.Ladders {
		l.Name = name
		all = append(all, dashboard.Ladder{Ladder: l, Queues: queues[name]})
	}
	slices.SortFunc(all, func(a, b dashboard.Ladder) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// pageChanges are what the pages can do.
type pageChanges struct{ conn *Conn }

// Force opens, closes or resets a breaker.
func (c pageChanges) Force(ctx context.Context, k breaker.Key, f breaker.Force) error {
	return c.conn.Breakers.Force(ctx, k, f)
}

// Release sets what a producer's guard has counted to nothing.
func (c pageChanges) Release(ctx context.Context, producer, by string) error {
	return c.conn.Guard.Reopen(ctx, producer, by)
}

// Cancel ends a batch, as `enqueue cancel` does.
func (c pageChanges) Cancel(ctx context.Context, id string) error {
	if err := c.conn.Batches.Cancel(ctx, id); err != nil {
		return err
	}
	return c.conn.Settle(ctx, id)
}

// Retry takes lines of a batch back, as `enqueue retry` does.
func (c pageChanges) Retry(ctx context.Context, id string, r batch.Retry, progress func(looked, all int64)) (int64, error) {
	st, err := c.conn.Batches.Status(ctx, id)
	if err != nil {
		return 0, err
	}
	if st.BudgetUSD != nil {
		room, err := c.conn.Guard.Room(ctx, nil, []string{id})
		if err != nil {
			return 0, err
		}
		if room.Batches[id].Spent {
			return 0, fmt.Errorf("retry lines of %s: %w", id, dashboard.ErrBudgetSpent)
		}
	}
	return c.conn.Batches.Retry(ctx, id, r, progress)
}

// pageFleet is the fleet.
type pageFleet struct{ conn *Conn }

// Fleet returns the workers, the queues and the keeper.
func (f pageFleet) Fleet(ctx context.Context) (dashboard.FleetStatus, error) {
	members, err := f.conn.Fleet.Members(ctx)
	keeper, keeperErr := f.conn.Fleet.Keeper(ctx)
	states, stateErr := f.conn.Queues.States(ctx, f.conn.Config.QueueNames())
	backlogs, unread := f.conn.Batches.Backlogs(ctx)
	if err := errors.Join(err, keeperErr, stateErr, unread); err != nil {
		return dashboard.FleetStatus{}, err
	}
	s := dashboard.FleetStatus{KeeperID: keeper.ID, KeeperUntil: keeper.Until, ConfigHash: f.conn.Config.Hash()}
	for _, m := range members {
		s.Workers = append(s.Workers, pageWorker(m))
	}
	for _, q := range f.conn.Config.Queues {
		s.Queues = append(s.Queues, f.queue(q, states[q.Name], backlogs, s.Workers))
	}
	return s, nil
}

func pageWorker(m tasks.Member) dashboard.Worker {
	w := dashboard.Worker{
		ID: m.ID, Host: m.Host, PID: m.PID, Version: m.Version, ConfigHash: m.ConfigHash,
		StartedAt: m.StartedAt, Silent: m.Silent, Lost: m.Lost(),
	}
	for name, q := range m.Queues {
		w.Queues = append(w.Queues, dashboard.WorkerQueue{Name: name, Slots: q.Slots, Active: q.Active})
	}
	slices.SortFunc(w.Queues, func(a, b dashboard.WorkerQueue) int { return strings.Compare(a.Name, b.Name) })
	return w
}

// queue sums up what one queue has.
func (f pageFleet) queue(q config.Queue, state tasks.QueueState, backlogs []batch.Backlog, workers []dashboard.Worker) dashboard.Queue {
	now := time.Now()
	hours := f.conn.hours[q.Name]
	out := dashboard.Queue{Name: q.Name, Ladder: q.Ladder, Open: hours.Open(now), Until: hours.Closes(now)}
	if !out.Open {
		out.Until = hours.Next(now)
	}
	if p := state.Paused; p != nil {
		out.Paused, out.PausedBy = true, p.By
	}
	for _, b := range backlogs {
		if b.Queue != q.Name {
			continue
		}
		out.Out += b.Out
		out.Backlog += b.Waiting
		for _, n := range b.Deferred {
			out.Waiting += int64(n)
		}
	}
	for _, w := range workers {
		for _, mine := range w.Queues {
			if mine.Name == q.Name && !w.Lost {
				out.Workers++
				out.Slots += mine.Slots
				out.Active += mine.Active
			}
		}
	}
	return out
}
