package alert

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/limit"
)

var words = Words{time.FixedZone("CET", 3600)}

func text(s Sighting) string {
	lines := []string{s.Title}
	for _, f := range s.Facts {
		lines = append(lines, f.Name+": "+f.Value)
	}
	data, _ := json.Marshal(s.Data)
	return strings.Join(append(lines, string(data)), "\n")
}

func one(t *testing.T, seen []Sighting, want string) {
	t.Helper()
	if len(seen) != 1 || text(seen[0]) != want {
		t.Errorf("seen %d\n%s\nwant\n%s", len(seen), text(append(seen, Sighting{})[0]), want)
	}
}

func TestBreakers(t *testing.T) {
	t.Parallel()
	at := func(after time.Duration) time.Time { return begin.Add(after) }
	s := breaker.Status{
		Key: breaker.Key{Provider: "p", Model: "p/m", Region: "eu"}, Scope: breaker.ScopeModel, State: breaker.HalfOpen,
		Reason: "unavailable: status 503", Until: at(20 * time.Minute), Wanted: true,
		Transitions: []breaker.Transition{
			{To: breaker.HalfOpen, At: at(15 * time.Minute)}, {To: breaker.Open, At: at(0)}, {To: breaker.Closed, At: at(-time.Hour)}, {To: breaker.Open, At: at(-2 * time.Hour)},
		},
	}
	one(t, words.Breakers([]breaker.Status{s}), `Nightshift: the breaker of p/m does not close
Since: Sun 1 Mar 23:00 CET
Reason: unavailable: status 503
Next probe: Sun 1 Mar 23:20 CET
Look: worker breakers show p/m
{"scope":"model","provider":"p","model":"p/m","region":"eu","state":"half_open","reason":"unavailable: status 503","until":"2026-03-01T22:20:00Z","held_by":""}`)

	held := s
	held.Wanted, held.Until, held.Held = false, time.Time{}, breaker.Held{State: breaker.Open, By: "anna@desk"}
	closed, idle, parent := s, s, s
	closed.State, idle.Wanted = breaker.Closed, false
	parent.Key, parent.Scope = s.Key.Parent(), breaker.ScopeParent
	for name, c := range map[string]struct {
		all  []breaker.Status
		hold []bool
	}{
		"closed":                        {[]breaker.Status{closed}, nil},
		"open for nobody":               {[]breaker.Status{idle}, []bool{true}},
		"held open by a person":         {[]breaker.Status{held}, []bool{false}},
		"a model behind an open parent": {[]breaker.Status{parent, s}, []bool{false, true}},
	} {
		var hold []bool
		for _, seen := range words.Breakers(c.all) {
			hold = append(hold, seen.Hold)
		}
		if len(hold) != len(c.hold) || len(hold) > 0 && hold[0] != c.hold[0] || len(hold) > 1 && hold[1] != c.hold[1] {
			t.Errorf("%s: held back %v, want %v", name, hold, c.hold)
		}
	}
	if seen := words.Breakers([]breaker.Status{held}); !strings.Contains(text(seen[0]), "Held open by: anna@desk") || strings.Contains(text(seen[0]), "Next probe") {
		t.Error(text(seen[0]))
	}
}

func TestGuards(t *testing.T) {
	t.Parallel()
	s := limit.GuardStatus{Producer: "report", Open: true, Calls: 5000, USD: 1_500_000_000, Limits: limit.GuardLimits{Calls: 5000}, Until: begin}
	one(t, words.Guards([]limit.GuardStatus{s, {Producer: "quiet"}, {Producer: limit.System, Open: true}}), `Nightshift: the hourly guard of report tripped
Calls of the hour: 5000 of 5000
First call again: Sun 1 Mar 23:00 CET
Look: worker guard
{"producer":"report","calls":5000,"calls_per_hour":5000,"usd":1.5,"usd_per_hour":0,"until":"2026-03-01T22:00:00Z"}`)
	s.Producer, s.Limits = limit.AllProducers, limit.GuardLimits{USD: 2_000_000_000}
	if got := text(words.Guards([]limit.GuardStatus{s})[0]); !strings.HasPrefix(got, "Nightshift: the hourly guard of all producers together tripped\nCalls of the hour: 5000\nUSD of the hour: 1.5 of 2\n") {
		t.Error(got)
	}
}

func TestRisks(t *testing.T) {
	t.Parallel()
	const slack = 15 * time.Minute
	at := func(after time.Duration) *time.Time { t := begin.Add(after); return &t }
	for name, c := range map[string]struct {
		state    batch.State
		deadline *time.Time
		eta      *time.Time
		now      time.Duration
		want     bool
	}{
		"on time":                            {batch.Running, at(10 * time.Hour), at(9 * time.Hour), 0, false},
		"within the slack":                   {batch.Running, at(10 * time.Hour), at(9*time.Hour + 46*time.Minute), 0, true},
		"late":                               {batch.Waiting, at(10 * time.Hour), at(11 * time.Hour), 0, true},
		"no forecast, much time":             {batch.Waiting, at(10 * time.Hour), nil, 9 * time.Hour, false},
		"no forecast, little time":           {batch.Waiting, at(10 * time.Hour), nil, 9*time.Hour + 50*time.Minute, true},
		"a short batch, within a tenth":      {batch.Running, at(20 * time.Minute), at(19 * time.Minute), 0, true},
		"a short batch, before that":         {batch.Running, at(20 * time.Minute), at(17 * time.Minute), 0, false},
		"without a deadline":                 {batch.Running, nil, at(100 * time.Hour), 0, false},
		"a deadline that nobody waits for":   {batch.Cancelling, at(time.Hour), at(2 * time.Hour), 0, false},
		"a batch that is not submitted yet":  {batch.Enqueuing, at(time.Hour), nil, 2 * time.Hour, false},
		"a batch that is done, though later": {batch.Done, at(time.Hour), at(2 * time.Hour), 2 * time.Hour, false},
	} {
		st := batch.Status{ID: "b", State: c.state, Deadline: c.deadline, ETA: c.eta, CreatedAt: begin}
		if got := len(words.Risks([]batch.Status{st}, slack, begin.Add(c.now))) == 1; got != c.want {
			t.Errorf("%s: at risk %v", name, got)
		}
	}
	st := batch.Status{ID: "b", Queue: "q", Producer: "p", State: batch.Running, Total: 9, Outstanding: 4, Deadline: at(time.Hour), CreatedAt: begin}
	one(t, words.Risks([]batch.Status{st}, slack, begin.Add(time.Hour)), `Nightshift: batch b is about to miss its deadline
Deadline: Mon 2 Mar 00:00 CET
Forecast: not known
Lines left: 4 of 9
Look: enqueue status b
{"id":"b","queue":"q","producer":"p","total":9,"outstanding":4,"deadline":"2026-03-01T23:00:00Z","eta":null}`)
}

func TestEnds(t *testing.T) {
	t.Parallel()
	late, end := false, begin.Add(time.Hour)
	st := batch.Status{
		ID: "b", Queue: "q", Producer: "p", State: batch.Done, Total: 9, Succeeded: 5, Failed: 2, Expired: 1, Cancelled: 1, Degraded: 3,
		CostUSD: 1_250_000_000, CreatedAt: begin, FinishedAt: &end, Deadline: &begin, OnTime: &late,
	}
	seen := words.Ends([]batch.Status{st})
	one(t, seen, `Nightshift: batch b is done
Lines: 5 succeeded, 2 failed, 1 expired, 1 cancelled
Degraded: 3
Cost: 1.25 USD
Late: it was due Sun 1 Mar 23:00 CET
{"id":"b","state":"done","queue":"q","producer":"p","total":9,"succeeded":5,"failed":2,"expired":1,"cancelled":1,"degraded":3,"cost_usd":1.25,"wasted_usd":0,"created_at":"2026-03-01T22:00:00Z","finished_at":"2026-03-01T23:00:00Z","deadline":"2026-03-01T22:00:00Z","on_time":false}`)
	if !seen[0].At.Equal(end) || seen[0].Subject != "b 1772406000000" {
		t.Errorf("%s at %s", seen[0].Subject, seen[0].At)
	}
}
