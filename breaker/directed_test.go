package breaker

import (
	"slices"
	"time"
)

// both gives the settings to both levels.
func both(s Settings) []Levels {
	s = s.WithDefaults()
	return []Levels{{Model: s, Parent: s}}
}

func do(later time.Duration, what string, o Outcome) step {
	return step{Do: what, Later: later, Report: Report{Outcome: o}}
}

// directed are trials of what random ones seldom come to.
func directed() []trial {
	return slices.Concat(ofManyCalls(), ofResults(), ofLateResults(), ofTwoProbes(), ofProbes(), ofParents(), ofOperators())
}

// ofManyCalls are about how many tickets and verdicts are kept.
func ofManyCalls() []trial {
	remembered := trial{Settings: both(Settings{})}
	for range 70 {
		remembered.Steps = append(remembered.Steps, do(time.Second, "call", Success))
	}
	for i := range 70 {
		remembered.Steps = append(remembered.Steps, step{Do: "report", Pick: i, Report: Report{Outcome: Success}})
	}
	judged := trial{Settings: both(Settings{})} // the first invalid one leaves with the 51st
	for i := range 55 {
		judged.Steps = append(judged.Steps, step{Do: "call", Report: Report{Output: []OutputVerdict{ValidOutput, InvalidOutput}[i%2]}})
	}
	return []trial{remembered, judged}
}

// ofLateResults are of calls from before a level's last transition.
func ofLateResults() (all []trial) {
	for pick := range 2 { // of the model, of the parent
		all = append(all, trial{Settings: both(Settings{}), Steps: []step{
			do(0, "admit", None), {Do: "force", Pick: 3 * pick, Force: Force{Action: ForceReset}}, do(0, "report last", Success),
		}})
	}
	return all
}

// ofTwoProbes are half-open with a lease of 5 s and one that ends later.
func ofTwoProbes() []trial {
	begin := []step{
		do(0, "call", Failure), do(0, "admit", None), do(30*time.Second, "probe", None), do(5*time.Second, "probe", None),
	}
	waits := step{Do: "report probe", Later: time.Second, Report: Report{Outcome: Failure, RetryAfter: 4 * time.Minute}}
	settings := both(Settings{Window: 1, Probes: 2})
	return []trial{
		{Settings: settings, Steps: slices.Concat(begin, []step{do(time.Second, "admit", None)})},
		{Settings: settings, Steps: slices.Concat(begin, []step{waits, do(-time.Hour, "admit", None)})},
	}
}

// ofResults are about the ring and about which reports count.
func ofResults() []trial {
	return []trial{
		{ // a window of three takes 8 minutes: the result of 10 minutes ago counts
			Settings: both(Settings{Window: 3, Failures: 3}),
			Steps: []step{
				do(0, "call", Success), do(4*time.Minute, "call", Failure),
				do(4*time.Minute, "call", Failure), do(6*time.Minute, "call", Failure),
			},
		},
		{ // a result of just the age at which it still counts
			Settings: both(Settings{Window: 3, Stale: time.Minute}),
			Steps:    []step{do(0, "call", Success), do(time.Minute, "call", Success)},
		},
		{ // and of just the age at which it does not
			Settings: both(Settings{Window: 3, Stale: time.Minute}),
			Steps:    []step{do(0, "call", Success), do(time.Minute+time.Millisecond, "call", Success)},
		},
		{ // the same where the age is automatic
			Settings: both(Settings{Window: 3}),
			Steps:    []step{do(0, "call", Success), do(time.Hour, "call", Success)},
		},
		{ // the digits of a ticket stand in two others, across their border
			Settings: both(Settings{}),
			Steps: []step{
				{Do: "call", ID: 10, Report: Report{Outcome: Success}},
				{Do: "call", ID: 11, Report: Report{Outcome: Success}},
				{Do: "call", ID: 10 * 64, Report: Report{Outcome: Success}},
				{Do: "call", ID: 11 * 64, Report: Report{Outcome: Failure}},
			},
		},
	}
}

// ofProbes are about probes, their leases and their rounds.
func ofProbes() []trial {
	return []trial{
		{ // the same ticket id has the lease in two epochs
			Settings: both(Settings{Window: 1}),
			Steps: []step{
				do(0, "call", Failure), do(0, "admit", None), do(time.Minute, "probe", None),
				do(0, "report probe", Failure), do(time.Minute, "probe again", None), do(0, "report old", Success),
			},
		},
		{ // the prober's call was refused
			Settings: both(Settings{Window: 1}),
			Steps: []step{
				do(0, "call", Failure), do(0, "admit", None), do(time.Minute, "probe", None),
				{Do: "report probe", Report: Report{Unfit: true}},
				do(time.Minute, "due", None),
			},
		},
		{ // a probe finds a hard condition
			Settings: both(Settings{Window: 1}),
			Steps: []step{
				do(0, "call", Failure), do(0, "admit", None), do(time.Minute, "probe", None),
				{Do: "report probe", Report: Report{Hard: true}},
			},
		},
		{ // a round begins with two probes, and one is enough before it ends
			Settings: append(both(Settings{Window: 1, Probes: 2, ProbeSuccesses: 2}), both(Settings{Window: 1})...),
			Steps: []step{
				do(0, "call", Failure), do(0, "admit", None), do(time.Minute, "probe", None),
				do(0, "report probe", Success),
				{Do: "settings", Pick: 1},
				do(0, "probe", None),
			},
		},
		{ // five rounds are ten transitions and more
			Settings: both(Settings{Window: 1}),
			Steps: append([]step{do(0, "call", Failure), do(0, "admit", None)}, slices.Repeat([]step{
				do(5*time.Minute, "probe", None), do(0, "report probe", Failure), do(0, "admit", None),
			}, 6)...),
		},
	}
}

// ofParents are about a parent whose probe goes through a model.
func ofParents() []trial {
	return []trial{
		{ // the model is held closed while a parent's probe finds that it is gone
			Settings: both(Settings{Window: 2}),
			Steps: []step{
				do(0, "call", Failure),
				{Do: "call", Model: 1, Report: Report{Outcome: Failure}},
				do(0, "admit", None),
				{Do: "force", Force: Force{Action: ForceClose, For: time.Hour}},
				do(time.Minute, "turn", None),
				{Do: "report probe", Report: Report{Hard: true}},
			},
		},
		{ // the clock steps back after a Retry-After; then a parent's probe finds that the model is gone
			Settings: both(Settings{}),
			Steps: []step{
				{Do: "call", Report: Report{Outcome: Failure, RetryAfter: time.Hour}},
				{Do: "call", Model: 1, Later: -48 * time.Hour, Report: Report{Hard: true, Scope: ScopeParent}},
				do(0, "admit", None), do(5*time.Minute, "turn", None),
				{Do: "report probe", Report: Report{Hard: true}},
			},
		},
		{ // the model is closed by an operator while its parent is probed through it
			Settings: both(Settings{}),
			Steps: []step{
				{Do: "call", Report: Report{Hard: true, Scope: ScopeParent}},
				do(0, "admit", None), do(5*time.Minute, "turn", None),
				{Do: "force", Force: Force{Action: ForceClose}},
				{Do: "report probe", Report: Report{Output: InvalidOutput}},
			},
		},
		{ // a model that is held open has the first turn as its parent is due
			Settings: both(Settings{}),
			Steps: []step{
				{Do: "call", Report: Report{Hard: true, Scope: ScopeParent}},
				{Do: "force", Force: Force{Action: ForceOpen}},
				do(0, "admit", None),
				{Do: "admit", Model: 1},
				do(5*time.Minute, "turn", None), do(0, "due", None), do(0, "turn", None),
			},
		},
		{ // a task asks for a model that is held open, while its parent is due
			Settings: both(Settings{TaskProbes: true}),
			Steps: []step{
				{Do: "call", Report: Report{Hard: true, Scope: ScopeParent}},
				{Do: "force", Force: Force{Action: ForceOpen, For: time.Hour}},
				do(5*time.Minute, "admit", None),
			},
		},
	}
}

// ofOperators are about what an operator holds or closes.
func ofOperators() []trial {
	return []trial{
		{ // an operator closes what is held open
			Settings: both(Settings{}),
			Steps: []step{
				{Do: "force", Force: Force{Action: ForceOpen, For: time.Hour}},
				{Do: "force", Force: Force{Action: ForceClose}},
			},
		},
		{ // a success that was admitted before an operator's close
			Settings: both(Settings{}),
			Steps: []step{
				do(0, "admit", None),
				{Do: "force", Force: Force{Action: ForceClose}},
				{Do: "force", Pick: 3, Force: Force{Action: ForceClose}},
				do(0, "report last", Success),
			},
		},
		{ // a success while an operator holds it closed, and after that
			Settings: both(Settings{}),
			Steps: []step{
				{Do: "force", Force: Force{Action: ForceClose, For: 1000 * time.Hour}},
				do(0, "call", Success), do(1001*time.Hour, "call", Success),
			},
		},
		{ // held open for good; a rejection for the record to be kept
			Settings: both(Settings{}),
			Steps:    []step{{Do: "force", Force: Force{Action: ForceOpen}}, do(0, "admit", None)},
		},
		{ // a failure while it is held closed
			Settings: both(Settings{Window: 1}),
			Steps:    []step{{Do: "force", Force: Force{Action: ForceClose, For: time.Hour}}, do(0, "call", Failure)},
		},
	}
}
