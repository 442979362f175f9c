package limit

// adapted is what the provider's answers taught.
type adapted struct {
	// A model of which nothing is known starts by calls in flight.
	Window   int64 // calls in flight, in thousandths; 0: firstWindow
	Accepted int64 // most calls in flight with one that was taken

	Rate     int64 // calls a minute, in thousandths; 0: none
	Estimate int64 // of the last refusal, likewise
	Sure     int64 // how many estimates in a row agreed
	GrowAt   int64 // when Rate last grew
	Pressed  int64 // when Rate last made a call wait

	// The mark is the last refusal; between it and the next the provider took
	// as many calls as its limit lets through.
	MarkAt  int64 // when the refused call began
	MarkN   int64 // its number
	Lost    int64 // calls begun since that were not taken
	Anew    int64 // 1: the mark is no refusal but the first call after a pause
	EventAt int64 // when the refusal came

	Cap        int64 // calls in flight, in thousandths; 0: none
	CapAt      int64 // when it last changed
	CapWait    int64 // ms until it grows
	CapPressed int64 // when it last made a call wait

	Ramp int64 // when a breaker closed; 0: long ago

	ToldRate int64 // by headers; calls a minute, in thousandths
	ToldTPM  int64 // by headers; tokens a minute
	ToldAt   int64
	Hold     int64 // until when nothing remains, by headers
}

// The numbers of adaptation. doc.go says where they come from.
const (
	firstWindow = 4000 // thousandths of a call
	minRate     = 1000 // a call a minute: what was learned never stops a fleet
	maxRate     = 1000 * maxRPM
	priorBurst  = 1000    // ms of its rate that a provider's bucket is taken to hold at first
	learnBurst  = 500     // ms of a learned rate that our bucket holds
	ruleBurst   = 1000    // ms of any other rate
	freshPress  = 1500    // ms for which a limit that made a call wait counts as what limits
	growPause   = 1000    // ms after a park before a rate grows
	growStep    = 100     // ms, the least time between two growths
	growMille   = 40      // thousandths of the estimate a second
	growFast    = 150     // thousandths of the rate a second, beyond fastFrom
	fastFrom    = 1300    // thousandths of the estimate
	mostSure    = 2       // halvings of growMille
	idleAfter   = 5000    // ms without a call, after which the mark says nothing
	firstCap    = 10_000  // ms until a learned cap grows
	leastCap    = 2000    // ms, what that falls to while it may grow
	mostCap     = 300_000 // ms, what it doubles to
	rampFor     = 12      // doublings after a breaker closed
	toldFor     = 600_000 // ms for which headers count
	maxHold     = 60_000  // ms
)

// starting says that nothing limits but the window.
func (s *state) starting(l Limits) bool {
	return l.RPM <= 0 && s.Rate == 0 && s.Cap == 0 && s.ToldRate == 0
}

// rate is the one that counts, in thousandths of a call a minute; 0: none.
func (s *state) rate(l Limits, now int64) int64 {
	r := least(least(1000*clamp(int64(l.RPM), 0, maxRPM), s.Rate), s.ToldRate)
	if n := s.ramp(now); n > 0 {
		r = least(r, min(n*callUnit/1000, maxRate)) // as many a second as may be in flight
	}
	return r
}

// concurrency is the one that counts; 0: none.
func (s *state) concurrency(l Limits, now int64) int64 {
	c := least(least(clamp(int64(l.Concurrency), 0, maxFlight), s.Cap/1000), s.ramp(now))
	if s.starting(l) {
		c = least(c, s.window()/1000)
	}
	return c
}

// tpm is the one that counts; 0: none.
func (s *state) tpm(l Limits) int64 { return least(clamp(int64(l.TPM), 0, maxTPM), s.ToldTPM) }

func (s *state) window() int64 {
	if s.Window == 0 {
		return firstWindow
	}
	return s.Window
}

// ramp is how many calls may be in flight soon after a breaker closed: two, and
// twice as many each second; 0: it was long ago.
func (s *state) ramp(now int64) int64 {
	n := max(now-s.Ramp, 0) / 1000
	if s.Ramp == 0 || n >= rampFor {
		return 0
	}
	return 2 << n
}

// burst is what the requests' bucket holds: a call at least.
func (s *state) burst(rate int64) int64 {
	d := int64(ruleBurst)
	if s.Rate > 0 {
		d = learnBurst
	}
	return max(rate*d, callUnit)
}

// press notes which learned limit makes a call wait: only that one may grow.
func (s *state) press(l Limits, why Reason, now int64) {
	switch {
	case why == ReasonRequests && s.Rate > 0 && s.rate(l, now) == s.Rate:
		s.Pressed = now
	case why == ReasonConcurrency && s.Cap > 0 && s.concurrency(l, now) == s.Cap/1000:
		s.CapPressed = now
	}
}

// mark begins to count anew where the provider's bucket may have filled in a pause.
func (s *state) mark(now int64) {
	if s.MarkAt == 0 || s.Flight == 0 && now-s.Last > idleAfter {
		s.MarkAt, s.MarkN, s.Lost, s.Anew = now, s.Begun, 0, 1
	}
	s.Last = now
}

// lose counts a call that began after the mark and was not taken.
func (s *state) lose(c call) {
	if c.N > s.MarkN {
		s.Lost++
	}
}

// pass learns from a call that the provider took.
func (s *state) pass(c call, r outcome) {
	s.Accepted = max(s.Accepted, c.Flight)
	if s.Rate > 0 || s.Cap > 0 || 2000*c.Flight < s.window() {
		return
	}
	slow := min(1000+700_000/max(r.latency/1000, 1), 3000) // thousandths, see doc.go
	s.Window = min(s.window()+1_000_000/slow, 1000*maxFlight)
}

// refused learns from a call that was refused and parked the model for parked ms.
// Calls that began before the last refusal was known say nothing new.
func (s *state) refused(c call, now, parked int64) {
	if c.Begun < s.EventAt {
		return
	}
	first := s.Rate == 0 && s.Cap == 0
	crowded := s.Accepted > 0 && c.Flight > s.Accepted && (s.Rate == 0 || s.Cap > 0 && 1000*c.Flight > s.Cap-1000)
	if crowded {
		s.learnCap(now + parked)
	}
	if !crowded || first {
		s.learnRate(c, now+parked)
	}
	s.MarkAt, s.MarkN, s.Lost = c.Begun, c.N, 0
	s.Anew = 0
	if crowded {
		s.Anew = 1
	}
	s.EventAt = now
}

// learnCap takes the most calls in flight that were accepted.
func (s *state) learnCap(from int64) {
	s.CapWait = clamp(2*s.CapWait, firstCap, mostCap)
	s.Cap, s.CapAt = 1000*max(s.Accepted, 1), from
}

// learnRate takes what the provider let through since the mark.
func (s *state) learnRate(c call, from int64) {
	taken, elapsed := clamp(c.N-1-s.MarkN-s.Lost, 0, maxTaken), max(c.Begun-s.MarkAt, 1)
	if s.Anew == 1 {
		elapsed += priorBurst
	}
	estimate := min(taken*callUnit/elapsed, maxRate)
	s.Accepted = clamp(s.Accepted, 1, max(c.Flight-1, 1))
	switch {
	case s.Rate == 0 && taken == 0:
		s.Window = max(s.window()/2, 1000)
		return
	case s.Rate == 0:
		s.Rate = estimate * 97 / 100
	default:
		s.Rate = clamp(estimate*97/100, s.Rate/2, s.Rate*95/100)
	}
	s.sure(estimate)
	s.Rate = max(s.Rate, minRate)
	s.Estimate = max(estimate, s.Rate)
	s.Req, s.GrowAt = 0, from+growPause
}

// sure counts the estimates that agree within a tenth.
func (s *state) sure(estimate int64) {
	if off := estimate - s.Estimate; s.Anew == 0 && 10*max(off, -off) <= s.Estimate {
		s.Sure = min(s.Sure+1, mostSure)
	} else {
		s.Sure = 0
	}
}

// grow lets what was learned grow while it is what limits.
func (s *state) grow(now int64) {
	if s.Cap > 0 && now-s.CapPressed <= freshPress && now-s.CapAt >= s.CapWait {
		s.Cap = min(s.Cap+1000, 1000*maxFlight)
		s.CapAt, s.CapWait = now, max(s.CapWait/2, leastCap)
	}
	if d := now - s.GrowAt; s.Rate > 0 && d >= growStep {
		if now-s.Pressed <= freshPress {
			s.Rate = min(s.Rate+s.gain(min(d, 1000)), maxRate)
		}
		s.GrowAt = now
	}
	if s.ToldAt > 0 && now-s.ToldAt > toldFor {
		s.ToldRate, s.ToldTPM, s.ToldAt = 0, 0, 0
	}
}

// gain is by how much the rate grows in d ms.
func (s *state) gain(d int64) int64 {
	if 1000*s.Rate > s.Estimate*fastFrom {
		return s.Rate * growFast / 1000 * d / 1000
	}
	return s.Estimate * growMille / (1 << s.Sure) / 1000 * d / 1000
}
