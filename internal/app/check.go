package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/alert"
	"nightshift/internal/notify"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/provider"
)

// Grade says how one thing was found.
type Grade string

// The grades, from good to bad.
const (
	Good    Grade = "ok"
	Note    Grade = "note" // neither good nor bad, but worth knowing
	Warning Grade = "warning"
	Bad     Grade = "wrong"
)

// Finding is one thing that was looked at.
type Finding struct {
	What   string // "redis", "model", "ladder"
	Name   string
	Grade  Grade
	Detail string // one line
}

// Report is what a check found.
type Report struct {
	Findings []Finding
}

// Failed says that something is wrong.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Grade == Bad })
}

// CheckOptions says what is looked at.
type CheckOptions struct {
	// NoProbe leaves out the calls to the models, which cost money.
	NoProbe bool
}

// Check looks whether a configuration works here: its Redis, one probe to each
// model through the real adapter, and ladders that can run out of rungs. What
// is wrong stands in the report; it changes nothing.
func Check(ctx context.Context, cfg *config.Config, o CheckOptions) (Report, error) {
	r := Report{Findings: checkRedis(ctx, cfg)}
	if !o.NoProbe {
		models, err := checkModels(ctx, cfg)
		if err != nil {
			return r, err
		}
		r.Findings = append(r.Findings, models...)
	}
	r.Findings = append(r.Findings, checkLadders(cfg)...)
	if !o.NoProbe { // else secrets need not be there
		r.Findings = append(r.Findings, checkNotify(cfg))
		r.Findings = append(r.Findings, checkReceivers(cfg)...)
	}
	return r, ctx.Err()
}

// The oldest Redis that asynq's scripts run on.
const minRedisMajor, minRedisMinor = 6, 2

func checkRedis(ctx context.Context, cfg *config.Config) []Finding {
	found := func(name string, g Grade, detail string) Finding { return Finding{"redis", name, g, detail} }
	if t, err := cfg.Redis.Target(); err == nil && t.Kind == config.RedisEmbedded {
		return []Finding{found("embedded", Warning, "forgets everything when the process ends; good for `enqueue run` alone")}
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	conn, err := Connect(ctx, cfg, slog.New(slog.DiscardHandler))
	if errors.Is(err, ErrNoRedis) && cfg.Redis.Source == config.FromDefault {
		return []Finding{found("default", Warning,
			fmt.Sprintf("no redis is named and none answers at %s: `enqueue run` embeds one; a fleet needs one", cfg.Redis))}
	}
	if err != nil {
		return []Finding{found(cfg.Redis.String(), Bad, oneLine(err))}
	}
	defer conn.Close()
	started := time.Now()
	all, err := infoOf(ctx, conn.state)
	if err != nil {
		return []Finding{found(cfg.Redis.String(), Bad, oneLine(err))}
	}
	answer := found(cfg.Redis.String(), Good, fmt.Sprintf("answers in %s", time.Since(started).Round(10*time.Microsecond)))
	findings := []Finding{answer}
	for _, info := range all {
		findings = append(findings, redisVersion(info), redisPersistence(ctx, conn.state, info), redisEviction(info))
	}
	return findings
}

func redisVersion(info map[string]string) Finding {
	f := Finding{"redis", "version", Good, info["redis_version"]}
	if !atLeast(f.Detail, minRedisMajor, minRedisMinor) {
		f.Grade, f.Detail = Bad, fmt.Sprintf("%q; %d.%d or later is needed", f.Detail, minRedisMajor, minRedisMinor)
	}
	return f
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}

func redisEviction(info map[string]string) Finding {
	policy := evicts(info)
	if policy == "" {
		return Finding{"redis", "eviction", Good, "none"}
	}
	return Finding{"redis", "eviction", Bad, fmt.Sprintf("maxmemory-policy is %q: Redis may throw batches away; set noeviction", policy)}
}

// parseInfo reads the reply of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	return info
}

// checkModels sends every model one probe, its own where it has one, all at the
// same time.
func checkModels(ctx context.Context, cfg *config.Config) ([]Finding, error) {
	calls, err := callers(cfg)
	if err != nil {
		return nil, err
	}
	seen := &probes{calls: map[string]provider.Call{}}
	prober, err := ladder.NewProber(ladder.ProberOptions{Models: cfg.Models, Callers: calls, Gate: untraced(), Observer: seen})
	if err != nil {
		return nil, err
	}
	all := keys(cfg)
	var wg sync.WaitGroup
	for _, k := range all {
		wg.Go(func() { prober.Probe(ctx, breaker.Ticket{Key: k}) })
	}
	wg.Wait()
	var found []Finding
	for _, k := range all {
		found = append(found, probed(cfg.Models[k.Model], seen.of(k.Model)))
	}
	return found, nil
}

// probed says what the probe of a model shows.
func probed(m config.Model, c provider.Call) Finding {
	f := Finding{"model", m.Key, Bad, c.Detail}
	switch c.Kind {
	case provider.OK:
		f.Grade, f.Detail = Good, fmt.Sprintf("answers in %d ms", c.LatencyMS)
		if m.Probe.Get != "" {
			f.Detail = fmt.Sprintf("answers GET %s in %d ms; no call was made", m.Probe.Get, c.LatencyMS)
		}
	case provider.RateLimited:
		f.Grade = Warning
	case provider.InvalidRequest:
		f.Grade, f.Detail = Warning, "answers, but refuses the probe: "+c.Detail
	}
	return f
}

// probes keeps the call of each model's probe.
type probes struct {
	mu    sync.Mutex
	calls map[string]provider.Call
}

// Called implements ladder.Observer.
func (p *probes) Called(e ladder.CallEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[e.Key.Model] = e.Call
}

// Avoided implements ladder.Observer.
func (p *probes) Avoided(breaker.Key) {}

func (p *probes) of(model string) provider.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[model]
}

// untraced counts and parks nothing for others: a check needs no Redis.
func untraced() ladder.Gate {
	return ladder.StoreGate{Pacer: limit.NewMemory(nil, nil), Guard: limit.NewGuardMemory(limit.GuardOptions{}, nil)}
}

// checkLadders tells what lines do while all models of their ladder fail: most
// people want them to wait, so that is nothing to warn of.
func checkLadders(cfg *config.Config) []Finding {
	var found []Finding
	for _, name := range cfg.LadderNames() {
		rungs := cfg.Ladders[name].Rungs
		f := Finding{"ladder", name, Note, "its text answers at once while no model can be called; with at_deadline: true lines wait for their models first"}
		isText := func(r config.Rung) bool { return r.Text != "" }
		switch atDeadline := func(r config.Rung) bool { return r.Model == "" && r.AtDeadline }; {
		case slices.ContainsFunc(rungs, atDeadline):
			f = checkDeadlines(cfg, name, len(rungs))
		case !slices.ContainsFunc(rungs, isText):
			f.Detail = "no last resort: lines wait for their models, the usual wish; a rung {text: ..., at_deadline: true} would answer the rest in time"
		case slices.ContainsFunc(rungs, func(r config.Rung) bool { return isText(r) && r.After > 0 }):
			f.Grade, f.Detail = Good, fmt.Sprintf("%d rungs, a text as the last resort", len(rungs))
		}
		found = append(found, f)
	}
	return found
}

// checkDeadlines looks whether every queue of a ladder with a text at the
// deadline has one: without, lines wait for ever.
func checkDeadlines(cfg *config.Config, name string, rungs int) Finding {
	f := Finding{"ladder", name, Good, fmt.Sprintf("%d rungs, a text at the deadline", rungs)}
	for _, q := range cfg.Queues {
		if q.Ladder == f.Name && q.Deadline == 0 {
			f.Grade = Warning
			f.Detail = fmt.Sprintf("at_deadline never comes for the batches of queue %s, which have no deadline", q.Name)
		}
	}
	return f
}

// checkNotify looks at what signs the messages of --notify.
func checkNotify(cfg *config.Config) Finding {
	f := Finding{"notify", "signature", Good, "messages are signed"}
	if _, err := notifier(cfg, ""); err != nil {
		f.Grade, f.Detail = Bad, oneLine(err)
	} else if cfg.Batches.Notify.SecretEnv == "" {
		f.Grade, f.Detail = Note, "no batches.notify.secret_env: what URLs of --notify are told is not signed, and they cannot know who told them"
	}
	return f
}

// checkReceivers says who is told of what. It sends nothing.
func checkReceivers(cfg *config.Config) (found []Finding) {
	for i, c := range cfg.Notify {
		f := Finding{"notify", fmt.Sprintf("notify[%d]", i), Good, ""}
		r, err := receiver(c, "")
		if err != nil {
			f.Grade, f.Detail = Bad, oneLine(err)
		} else {
			f.Name, f.Detail = r.Name, "is told of "+strings.Join(eventNames(r), ", ")
			if c.SecretEnv == "" && c.Format != string(notify.Slack) {
				f.Grade, f.Detail = Note, f.Detail+"; not signed, without secret_env"
			}
		}
		found = append(found, f)
	}
	return found
}

func eventNames(r alert.Receiver) (names []string) {
	for _, e := range r.Events {
		names = append(names, string(e))
	}
	return names
}

// oneLine puts joined errors side by side.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
