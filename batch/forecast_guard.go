package batch

import (
	"math"
	"time"

	"nightshift/internal/hours"
	"nightshift/limit"
	"nightshift/provider"
)

// GuardOutlook is what the hourly guard has before it. Limits of 0 are none.
type GuardOutlook struct {
	Producer string
	Calls    Hourly // of the producer
	USD      Hourly // likewise, in nano-dollars; Others is not known and 0
	Global   Hourly // calls of all producers
	// Until is when an open guard lets the next line in; zero: it is closed.
	Until     time.Time
	Allowance int64 // calls of the batch's own
	// Deadline is the batch's; zero: none.
	Deadline time.Time

	start time.Time // of the batch, when what is used now counts still
	hours hours.Hours
}

// Hourly is a limit that counts in a sliding hour.
type Hourly struct {
	Limit  int64 // 0: none
	Used   int64 // in the last hour
	Others int64 // what is outstanding beside the batch
}

// GuardForecast is the arithmetic of the hourly guard for a batch.
type GuardForecast struct {
	Producer     string `json:"producer"`
	CallsPerHour int64  `json:"calls_per_hour"` // 0: no limit
	Calls        int64  `json:"calls"`          // in the last hour
	// Outstanding are the lines of the producer's other batches.
	Outstanding int64        `json:"outstanding"`
	USDPerHour  provider.USD `json:"usd_per_hour"`
	USD         provider.USD `json:"usd"`
	// GlobalCallsPerHour and GlobalCalls are those of all producers.
	GlobalCallsPerHour int64      `json:"global_calls_per_hour"`
	GlobalCalls        int64      `json:"global_calls"`
	Allowance          int64      `json:"allowance"`
	Until              *time.Time `json:"until"` // nil: it is closed
	Verdict            Judgement  `json:"verdict"`
	Seconds            int64      `json:"seconds"` // until the guard has let all through
	// Needed is the allowance with which the batch would be in time; 0: none is
	// needed, or none would help.
	Needed int64 `json:"allowance_needed"`
}

// Judgement says how a batch stands to its deadline.
type Judgement string

// The judgements.
const (
	InTime Judgement = "in_time"
	Tight  Judgement = "tight" // more than four fifths of the time are needed
	Late   Judgement = "late"
)

// left is the time until the deadline in which lines may run.
func (g GuardOutlook) left() time.Duration { return g.hours.Within(g.start, g.Deadline) }

// judge holds a time against the deadline, which may be missing.
func (g GuardOutlook) judge(needed time.Duration) Judgement {
	switch left := g.left(); {
	case g.Deadline.IsZero() || needed <= 0:
		return InTime
	case needed > left:
		return Late
	case needed > left*4/5:
		return Tight
	}
	return InTime
}

// windowMinutes is how long a call counts, in the guard's whole minutes.
const windowMinutes = int64(limit.GuardWindow / time.Minute)

// until is how long it takes until n further calls have been let through, at most.
//
// What was used is thought to be spread evenly over the guard's window, so it falls
// out evenly over the next one, by whole minutes; what is free goes at once, and
// again each window.
func (h Hourly) until(n int64) time.Duration {
	free := max(0, h.Limit-h.Used)
	if h.Limit <= 0 || n <= free {
		return 0
	}
	used := h.Limit - free
	rounds, rest := (n-free-1)/h.Limit, (n-free-1)%h.Limit+1
	if rounds > int64(longest/limit.GuardWindow) {
		return longest
	}
	minutes := windowMinutes
	if rest <= used {
		minutes = (rest*windowMinutes + used - 1) / used
	}
	return time.Duration(rounds*windowMinutes+minutes) * time.Minute
}

// passes is how many calls are let through in a time, at least.
func (h Hourly) passes(d time.Duration) int64 {
	if h.Limit <= 0 {
		return math.MaxInt64
	}
	free := max(0, h.Limit-h.Used)
	minutes := int64(min(max(d, 0), longest) / time.Minute)
	return free + minutes/windowMinutes*h.Limit + (h.Limit-free)*(minutes%windowMinutes)/windowMinutes
}

// bounds are the guard's limits that hold a batch. Its allowance is of calls of
// the producer alone: dollars, and the calls of all, count whoever granted them.
func (g GuardOutlook) bounds(lines int64, cost provider.USD) (all []Bound) {
	add := func(what BoundKind, limit float64, d time.Duration) {
		if d > 0 {
			all = append(all, Bound{What: what, Limit: limit, Source: Configured, Seconds: seconds(d)})
		}
	}
	if n := max(0, lines-g.Allowance); n > 0 {
		add(BoundGuard, float64(g.Calls.Limit), g.Calls.until(n+g.Calls.Others))
	}
	add(BoundGuardUSD, provider.USD(g.USD.Limit).Float(), g.USD.until(int64(cost)))
	add(BoundGlobalGuard, float64(g.Global.Limit), g.Global.until(lines+g.Global.Others))
	return all
}

func (g GuardOutlook) limited() bool { return g.Calls.Limit+g.USD.Limit+g.Global.Limit > 0 }

func (g GuardOutlook) foresee(lines int64, cost provider.USD) *GuardForecast {
	if !g.limited() {
		return nil
	}
	var takes time.Duration
	for _, b := range g.bounds(lines, cost) {
		takes = max(takes, time.Duration(b.Seconds)*time.Second)
	}
	f := &GuardForecast{
		Producer: g.Producer, CallsPerHour: g.Calls.Limit, Calls: g.Calls.Used, Outstanding: g.Calls.Others,
		USDPerHour: provider.USD(g.USD.Limit), USD: provider.USD(g.USD.Used),
		GlobalCallsPerHour: g.Global.Limit, GlobalCalls: g.Global.Used, Allowance: g.Allowance,
		Until: timePtr(g.Until), Verdict: g.judge(takes), Seconds: seconds(takes),
	}
	if f.Verdict == Late {
		f.Needed = g.needed(lines, cost)
	}
	return f
}

// needed is the smallest allowance with which the guard lets a batch through in
// time; 0: none would help.
func (g GuardOutlook) needed(lines int64, cost provider.USD) int64 {
	left := g.left()
	g.Allowance = lines
	for _, b := range g.bounds(lines, cost) {
		if time.Duration(b.Seconds)*time.Second > left {
			return 0
		}
	}
	pass := g.Calls.passes(left) - g.Calls.Others
	return lines - min(max(pass, 0), lines)
}
