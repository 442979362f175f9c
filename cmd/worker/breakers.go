package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func (p *program) breakersCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "breakers", Short: "list the breakers of all providers and models; open, close and reset them", Args: cli.Args,
		Long: "Lists the breakers of all providers and models of the configuration, as the fleet sees them: each provider (or region of one) with its models below it. FAILED is what the last calls came to, OPENS AT how many failures of how many calls open it, COOLDOWN how long it stays open when it opens next. Below a breaker that is not closed stand the reason, its probe, and who holds it.\n\n" +
			"docs/breaker.md explains the list, and what to do at night.",
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := p.connectState(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			all, err := listed(c.Context(), conn)
			if err != nil {
				return err
			}
			speeds, err := readPaces(c.Context(), conn)
			if err != nil {
				return err
			}
			if err := p.printBreakers(conn, speeds, all, all, asJSON); err != nil || asJSON {
				return err
			}
			p.Say("%s", summary(all))
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	c.AddCommand(p.showCommand())
	for _, f := range forcings() {
		c.AddCommand(p.forceCommand(f))
	}
	return c
}

func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON; times are RFC 3339")
}

// connectState reaches what the fleet shares; no key of a provider is needed.
func (p *program) connectState(ctx context.Context) (*app.Conn, error) {
	cfg, err := p.LoadShared(config.WithoutKeys())
	if err != nil {
		return nil, err
	}
	conn, err := app.Connect(ctx, cfg, p.Logger(slog.LevelWarn))
	if err != nil {
		return nil, orNoRedis(err)
	}
	return conn, nil
}

// listed returns all breakers: each parent, then its models.
func listed(ctx context.Context, conn *app.Conn) ([]breaker.Status, error) {
	all, err := conn.Breakers.List(ctx, conn.Levels)
	if err != nil {
		return nil, fmt.Errorf("list breakers: %w", err)
	}
	place := map[breaker.Key]int{}
	for _, s := range all {
		if s.Scope == breaker.ScopeParent {
			place[s.Key] = len(place)
		}
	}
	slices.SortStableFunc(all, func(a, b breaker.Status) int { return place[a.Key.Parent()] - place[b.Key.Parent()] })
	return all, nil
}

// of returns the statuses of the given breakers, in the order of all.
func of(all []breaker.Status, keys []breaker.Key) []breaker.Status {
	return slices.DeleteFunc(slices.Clone(all), func(s breaker.Status) bool { return !slices.Contains(keys, s.Key) })
}

// summary is the list in one line.
func summary(all []breaker.Status) string {
	var shut, held int
	for _, s := range all {
		if s.State != breaker.Closed {
			shut++
		}
		if s.Held.State != "" {
			held++
		}
	}
	text := fmt.Sprintf("all %s are closed", cli.Count(len(all), "breaker"))
	if shut > 0 {
		text = fmt.Sprintf("not closed: %d of %s; `worker breakers show BREAKER` tells how that came", shut, cli.Count(len(all), "breaker"))
	}
	if held > 0 {
		text += fmt.Sprintf("; %d held by an operator", held)
	}
	return text
}

// pick returns the breakers that names mean, each once. All names that mean
// none are reported at once.
func pick(conn *app.Conn, names []string) ([]breaker.Key, error) {
	known := map[string]breaker.Key{}
	for _, k := range conn.Levels {
		known[k.String()] = k
	}
	var keys []breaker.Key
	var wrong, hints []string
	for _, name := range names {
		k, ok := known[name]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("there is no breaker %q", name))
			hints = append(hints, hintFor(name, conn.Levels))
		case !slices.Contains(keys, k):
			keys = append(keys, k)
		}
	}
	if len(wrong) > 0 {
		return nil, cli.Fail(strings.Join(hints, "\n"), fmt.Errorf("%s", strings.Join(wrong, "\n")))
	}
	return keys, nil
}

// hintFor says which breaker may have been meant. A provider whose models all
// name regions has a breaker for each region and none for the whole.
func hintFor(name string, levels []breaker.Key) string {
	var known, regions []string
	for _, k := range levels {
		known = append(known, k.String())
		if k.Provider == name && k.Scope() == breaker.ScopeParent {
			regions = append(regions, k.String())
		}
	}
	if len(regions) > 0 {
		return fmt.Sprintf("%s has a breaker for each of its regions: %s", name, join(regions))
	}
	if near := config.DidYouMean(name, known); near != "" {
		return near
	}
	return "`worker breakers` lists them"
}

// breakerRecord is a breaker in the JSON of `worker breakers --json`.
type breakerRecord struct {
	Scope       breaker.Scope      `json:"scope"`
	Provider    string             `json:"provider"`
	Model       string             `json:"model"`
	Region      string             `json:"region"`
	State       breaker.State      `json:"state"`
	Reason      string             `json:"reason"`
	Until       *time.Time         `json:"until"` // null while it is closed, or held open for good
	CooldownMS  int64              `json:"cooldown_ms"`
	Failures    int                `json:"failures"`
	Results     int                `json:"results"`
	Window      int                `json:"window"`
	Probing     int                `json:"probing"`
	Wanted      bool               `json:"wanted"`
	Judged      int                `json:"judged"`  // answers of a model that were checked, of the last 50
	Invalid     int                `json:"invalid"` // of those
	Held        *heldRecord        `json:"held"`    // null: nobody holds it
	Transitions []transitionRecord `json:"transitions"`
	Pace        *paceRecord        `json:"pace"` // of a model; null: of a parent
}

type heldRecord struct {
	State breaker.State `json:"state"`
	By    string        `json:"by"`
	At    time.Time     `json:"at"`
	Until *time.Time    `json:"until"` // null: for good
}

type transitionRecord struct {
	At     time.Time     `json:"at"`
	From   breaker.State `json:"from"`
	To     breaker.State `json:"to"`
	Reason string        `json:"reason"`
}

func breakerRecords(all []breaker.Status, speeds paces) []breakerRecord {
	now := time.Now()
	records := []breakerRecord{}
	for _, s := range all {
		r := breakerRecord{
			Scope: s.Scope, Provider: s.Key.Provider, Model: s.Key.Model, Region: s.Key.Region, State: s.State, Reason: s.Reason,
			Until: orNull(s.Until), CooldownMS: s.Cooldown.Milliseconds(), Failures: s.Failures, Results: s.Results, Window: s.Window,
			Probing: s.Probing, Wanted: s.Wanted, Judged: s.Judged, Invalid: s.Invalid, Transitions: []transitionRecord{},
			Pace: speeds.record(s.Key, now),
		}
		if h := s.Held; h.State != "" {
			r.Held = &heldRecord{h.State, h.By, h.At, orNull(h.Until)}
		}
		for _, t := range s.Transitions {
			r.Transitions = append(r.Transitions, transitionRecord{t.At, t.From, t.To, t.Reason})
		}
		records = append(records, r)
	}
	return records
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func join(names []string) string { return strings.Join(names, ", ") }
