package limit

import "time"

// pace is what a state shows at now; it changes nothing.
func (s *state) pace(l Limits, now int64) Pace {
	if now < s.At-maxStepBack.Milliseconds() {
		return Pace{Limits: l, Starting: s.starting(l)}
	}
	return Pace{
		Limits: l, Rate: s.rate(l, now), Concurrency: s.concurrency(l, now), TPM: s.tpm(l),
		LearnedRate: s.Rate, LearnedConcurrency: s.Cap / 1000, ToldRate: s.ToldRate, ToldTPM: s.ToldTPM,
		Starting: s.starting(l) || s.ramp(now) > 0,
		Parked:   millis(max(s.parked("", now), min(s.Hold-now, maxHold))),
		InFlight: s.Flight, Waiting: s.Waiting,
		Calls: s.Passed, Limited: s.Limited, Latency: time.Duration(s.Latency) * time.Microsecond,
	}
}
