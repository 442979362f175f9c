package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/tasks"
)

func (p *program) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "the fleet: workers, their configurations, queues, and the keeper", Args: cli.Args,
		Long: "Lists the workers that share this Redis, and what each queue has before it. A worker that said nothing for 10 seconds is lost: it was killed, or cannot reach Redis; its lines go on elsewhere, and it is shown for an hour. CONFIG is the hash of a worker's configuration: where two differ, that is pointed out. The keeper is the worker that releases lines and ends batches; another takes over within seconds. OUT are lines that are released and not finished, BACKLOG those that are not released.",
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := p.connectState(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			f, err := readFleet(c.Context(), conn)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(p.Out, f)
			}
			return p.printFleet(f, time.Now())
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// fleet is the JSON of `worker status --json`.
type fleet struct {
	Keeper       *keeperRecord  `json:"keeper"` // null: nobody is
	Workers      []workerRecord `json:"workers"`
	Queues       []queueRecord  `json:"queues"`
	ConfigHashes []string       `json:"config_hashes"` // of live workers, each once
}

type keeperRecord struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"` // its lease, unless it is renewed
}

type workerRecord struct {
	ID         string                     `json:"id"`
	State      string                     `json:"state"` // live, lost
	Host       string                     `json:"host"`
	PID        int                        `json:"pid"`
	Version    string                     `json:"version"`
	ConfigHash string                     `json:"config_hash"`
	StartedAt  time.Time                  `json:"started_at"`
	SeenAt     time.Time                  `json:"seen_at"`
	Queues     map[string]tasks.QueueBeat `json:"queues"`
}

type queueRecord struct {
	Queue   string `json:"queue"`
	Workers int    `json:"workers"` // live ones that serve it
	Slots   int    `json:"slots"`
	Active  int    `json:"active"`
	Out     int64  `json:"out"`
	Backlog int64  `json:"backlog"`
}

const (
	live = "live"
	lost = "lost"
)

func readFleet(ctx context.Context, conn *app.Conn) (fleet, error) {
	members, err := conn.Fleet.Members(ctx)
	if err != nil {
		return fleet{}, err
	}
	keeper, err := conn.Fleet.Keeper(ctx)
	if err != nil {
		return fleet{}, err
	}
	backlogs, err := conn.Batches.Backlogs(ctx)
	if err != nil {
		return fleet{}, err
	}
	queues := map[string]*queueRecord{}
	for _, name := range conn.Config.QueueNames() {
		queues[name] = &queueRecord{Queue: name}
	}
	for _, b := range backlogs {
		q := queueOf(queues, b.Queue)
		q.Out += b.Out
		q.Backlog += b.Waiting
	}
	f := newFleet(members, queues, time.Now())
	if keeper.ID != "" {
		f.Keeper = &keeperRecord{keeper.ID, keeper.Until}
	}
	return f, nil
}

func queueOf(queues map[string]*queueRecord, name string) *queueRecord {
	if queues[name] == nil {
		queues[name] = &queueRecord{Queue: name}
	}
	return queues[name]
}

// newFleet sums up workers and what queues have before them.
func newFleet(members []tasks.Member, queues map[string]*queueRecord, now time.Time) fleet {
	f := fleet{Workers: []workerRecord{}, Queues: []queueRecord{}, ConfigHashes: []string{}}
	for _, m := range members {
		w := workerRecord{
			ID: m.ID, State: live, Host: m.Host, PID: m.PID, Version: m.Version, ConfigHash: m.ConfigHash,
			StartedAt: m.StartedAt, SeenAt: now.Add(-m.Silent).UTC(), Queues: m.Queues,
		}
		if m.Lost() {
			w.State = lost
		}
		f.Workers = append(f.Workers, w)
		if w.State == lost {
			continue
		}
		if !slices.Contains(f.ConfigHashes, m.ConfigHash) {
			f.ConfigHashes = append(f.ConfigHashes, m.ConfigHash)
		}
		for name, beat := range m.Queues {
			q := queueOf(queues, name)
			q.Workers++
			q.Slots += beat.Slots
			q.Active += beat.Active
		}
	}
	for _, q := range slices.SortedFunc(maps.Values(queues), func(a, b *queueRecord) int { return cmp.Compare(a.Queue, b.Queue) }) {
		f.Queues = append(f.Queues, *q)
	}
	return f
}

func (p *program) printFleet(f fleet, now time.Time) error {
	if len(f.Workers) > 0 {
		var rows [][]string
		for _, w := range f.Workers {
			role := "-"
			if f.Keeper != nil && f.Keeper.ID == w.ID {
				role = "keeper"
			}
			rows = append(rows, []string{w.ID, w.State, role, w.Version, w.ConfigHash, p.Time(w.StartedAt), p.seen(w, now), slotsOf(w)})
		}
		if err := cli.Table(p.Out, []string{"WORKER", "STATE", "ROLE", "VERSION", "CONFIG", "STARTED", "SEEN", "ACTIVE"}, rows); err != nil {
			return err
		}
		fmt.Fprintln(p.Out)
	}
	var rows [][]string
	for _, q := range f.Queues {
		rows = append(rows, []string{q.Queue, fmt.Sprint(q.Workers), fmt.Sprintf("%d of %d", q.Active, q.Slots), fmt.Sprint(q.Out), fmt.Sprint(q.Backlog)})
	}
	if err := cli.Table(p.Out, []string{"QUEUE", "WORKERS", "ACTIVE", "OUT", "BACKLOG"}, rows); err != nil {
		return err
	}
	for _, text := range f.oddities() {
		p.Warn("%s", text)
	}
	return nil
}

func (p *program) seen(w workerRecord, now time.Time) string {
	if w.State == live {
		return "now"
	}
	return cli.Duration(now.Sub(w.SeenAt)) + " ago"
}

// slotsOf is what a worker has in hand, by queue.
func slotsOf(w workerRecord) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.Queues)) {
		parts = append(parts, fmt.Sprintf("%s %d of %d", name, w.Queues[name].Active, w.Queues[name].Slots))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// oddities are what somebody should look into.
func (f fleet) oddities() (all []string) {
	lives := map[string]int{}
	for _, w := range f.Workers {
		if w.State == live {
			lives[w.ConfigHash]++
		} else {
			all = append(all, fmt.Sprintf("worker %s said nothing since %s: it was killed, or cannot reach redis", w.ID, w.SeenAt.Format(time.RFC3339)))
		}
	}
	if len(lives) == 0 {
		all = append(all, "no worker runs; `worker run` starts one")
	}
	if len(f.ConfigHashes) > 1 {
		var parts []string
		for _, hash := range f.ConfigHashes {
			parts = append(parts, fmt.Sprintf("%s (%s)", hash, cli.Count(lives[hash], "worker")))
		}
		all = append(all, "the workers have different configurations: "+strings.Join(parts, ", ")+"; restart those with the old one")
	}
	for _, q := range f.Queues {
		if q.Workers == 0 && q.Out+q.Backlog > 0 && len(lives) > 0 {
			all = append(all, fmt.Sprintf("no worker serves queue %s, which has %s", q.Queue, cli.Count(q.Out+q.Backlog, "line")))
		}
	}
	if f.Keeper == nil && len(lives) > 0 {
		all = append(all, "nobody is the keeper at this moment; a worker takes over within seconds")
	}
	return all
}
