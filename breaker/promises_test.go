package breaker

import "fmt"

// checkStep holds every step to the promises of doc.go.
func checkStep(before, after Pair, op Op, r Reply, now int64, s Levels) error {
	longest := max(s.Model.MaxCooldown+s.Model.ProbeLease, s.Parent.MaxCooldown+s.Parent.ProbeLease).Milliseconds()
	promises := map[string]bool{
		"a wait is never negative":                         r.RetryAfter >= 0,
		"a wait has a bound":                               r.RetryAfter <= longest+1,
		"a call needs two closed breakers or is the probe": r.Code != Granted || r.Scope != "" || op.Kind != OpAdmit || after.Model.closed() && after.Parent.closed(),
		"a model is not probed under an open parent":       r.Code != Granted || r.Scope != ScopeModel || after.Parent.closed() || wasLent(before.Model, op.ID),
		"no probe goes to a model that is held open":       r.Code != Granted || after.Model.Hold.State != Open || wasLent(before.Model, op.ID) || wasLent(before.Parent, op.ID),
		"a prober gets only probes":                        op.Kind != OpAdmitProbe || r.Code != Granted || r.Scope != "",
		"a call that may not probe does not":               !op.NoProbe || r.Code != Granted || r.Scope == "",
	}
	for promise, kept := range promises {
		if !kept {
			return fmt.Errorf("broken: %s: %+v gave %+v", promise, op, r)
		}
	}
	if err := checkRecord(before.Model, after.Model, op, r.Change, now, s.Model); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := checkRecord(before.Parent, after.Parent, op, r.ParentChange, now, s.Parent); err != nil {
		return fmt.Errorf("parent: %w", err)
	}
	return nil
}

func wasLent(r Record, id uint64) bool {
	for _, l := range r.Leases {
		if l.ID == id {
			return true
		}
	}
	return false
}

func checkRecord(before, after Record, op Op, c Change, now int64, s Settings) error {
	held := after.Hold.State
	promises := map[string]bool{
		"until has a bound":                                      after.closed() || held == Open || after.Until <= max(now+s.MaxCooldown.Milliseconds()+1, before.Until),
		"the ring fits the window":                               len(after.Ring) <= max(s.Window, len(before.Ring)),
		"the history has a bound":                                len(after.History) <= maxHistory,
		"epochs grow":                                            after.Epoch >= before.Epoch,
		"a transition is a new epoch":                            (c.From != "") == (before.Epoch != 0 && after.Epoch != before.Epoch) || op.Kind == OpForce,
		"leases live only in half-open":                          len(after.Leases) == 0 || after.State == HalfOpen,
		"leases fit the settings":                                len(after.Leases) <= max(s.Probes, len(before.Leases)),
		"rounds live only in half-open":                          after.Good+after.Bad+after.Void == 0 || after.State == HalfOpen,
		"a closed breaker carries no rest of an open":            !after.closed() || after.Until == 0 && after.Cooldown == 0 && after.Wanted == 0 && after.Reason == "" && !after.TaskNext && len(after.Wants) == 0,
		"what is held stays":                                     held == "" || after.State == held || held == Closed && after.closed(),
		"a half-open breaker can be probed or waits for a probe": after.State != HalfOpen || after.free(&s) || len(after.Leases) > 0 || now < before.lastLease() || op.Kind == OpAdmit,
	}
	for promise, kept := range promises {
		if !kept {
			return fmt.Errorf("broken: %s: %+v gave %+v", promise, op, after)
		}
	}
	return nil
}
