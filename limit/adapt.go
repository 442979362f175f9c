package limit

// adapted is what the provider's answers taught.
type adapted struct {
	// A model of which nothing is known starts by calls in flight.
	Window   int64 // calls in flight, in thousandths; 0: firstWindow
	WindowAt int64 // when it last grew by time, or began to make calls wait

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
	Crowd   int64 // 1: it taught Cap
	ParkTo  int64 // the end of the park it made
	Idle    int64 // ms of that park that brought nothing, see idle
	Smooth  int64 // how often our own burst was too much

	Full    int64 // when the window or Cap last made a call wait
	Cap     int64 // calls in flight, in thousandths; 0: none
	CapAt   int64 // when it last changed
	CapWait int64 // ms until it grows
	Grown   int64 // 1: it grew since the last refusal
	Safe    int64 // calls in flight that were taken before it grew
	Proven  int64 // calls that began since with more, and were taken

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
	widenEvery  = 1000    // ms
	growStep    = 100     // ms, the least time between two growths
	growMille   = 60      // thousandths of the estimate a second
	growCall    = 20      // and at most that many thousandths a call
	fastMille   = 150     // thousandths of the rate a second, beyond fastFrom
	fastCall    = 50      // and at most that many thousandths a call
	fastFrom    = 1200    // thousandths of the estimate
	mostSure    = 3       // halvings of growMille
	idleAfter   = 5000    // ms without a call, after which the mark says nothing
	earlyWithin = 1000    // ms after a park
	smoothFor   = 300_000 // ms
	toldPause   = 2000    // ms
	streakEnds  = 5
	smoothFrom  = 3
	mostSmooth  = 5
	firstCap    = 3000    // ms until a learned cap grows
	leastCap    = 1000    // ms, what that falls to while it may grow
	enough      = 3       // calls that prove a cap
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
	return least(least(clamp(int64(l.Concurrency), 0, maxFlight), s.mayFly(l)), s.ramp(now))
}

// mayFly is how many calls may be in flight by what was learned; 0: any number.
func (s *state) mayFly(l Limits) int64 {
	if s.starting(l) {
		return s.window() / 1000
	}
	return s.Cap / 1000
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
		d = learnBurst >> (2 * s.Smooth)
	}
	return max(rate*d, callUnit)
}

// press notes which learned limit makes a call wait: only that one may grow, from
// the moment at which it began to.
func (s *state) press(l Limits, why Reason, now int64) {
	switch {
	case why == ReasonRequests && s.Rate > 0 && s.rate(l, now) == s.Rate:
		if now-s.Pressed > freshPress {
			s.GrowAt = max(s.GrowAt, now)
		}
		s.Pressed = lately(s.Pressed, now)
	case why == ReasonConcurrency && s.concurrency(l, now) == s.mayFly(l):
		if now-s.Full > freshPress {
			s.WindowAt = now
		}
		s.Full = lately(s.Full, now)
	}
}

// lately moves a time to now, in steps, so that not every question writes it.
func lately(at, now int64) int64 {
	if now-at >= growStep {
		return now
	}
	return at
}

// mark begins to count anew where the provider's bucket may have filled in a pause.
func (s *state) mark(now int64) {
	if s.MarkAt == 0 || s.Flight == 0 && now-max(s.Last, s.ParkTo, s.Pressed) > idleAfter {
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
	if s.Cap > 0 && c.Flight > s.Safe && c.Begun >= s.CapAt && s.Proven < enough {
		s.Proven++
	}
	if s.Rate > 0 || s.Cap > 0 || 2000*c.Flight < s.window() {
		return
	}
	slow := min(1000+700_000/max(r.latency/1000, 1), 3000) // thousandths, see doc.go
	s.Window = min(s.window()+1_000_000/slow, 1000*maxFlight)
}

// refused learns from a call that was refused and parked the model for parked ms.
func (s *state) refused(c call, now, parked, told int64) {
	if c.Begun < s.EventAt { // it began before the last refusal was known
		if s.Crowd == 1 {
			s.Cap = min(s.Cap, 1000*max(c.Flight-1, 1))
		}
		return
	}
	first := s.Rate == 0 && s.Cap == 0
	crowd := first || s.Cap > 0 && c.Flight > s.Safe && s.Proven < enough
	until := now + parked
	if !crowd || first {
		s.learnRate(c, now, until)
	}
	s.Crowd = 0
	if crowd {
		s.learnCap(c, until)
	}
	s.MarkAt, s.MarkN, s.Lost, s.Anew = c.Begun, c.N, 0, s.Crowd
	s.EventAt, s.ParkTo, s.Idle = now, until, s.idle(until-c.Begun, told)
}

// idle is for how many ms of the pause after a refusal the provider's bucket was
// full already. A pause of some seconds that the provider asked for it needed; in
// any other its bucket is taken to fill within a second, or, where our own bursts
// were too much, at once.
func (s *state) idle(pause, told int64) int64 {
	switch {
	case told > toldPause:
		return 0
	case s.Smooth >= smoothFrom:
		return pause
	}
	return max(pause-priorBurst, 0)
}

// streak is over where enough calls were taken since the last refusal: the next
// park is a short one again.
func (s *state) streak(c call) {
	if st := s.Parks[""]; s.taken(c) >= streakEnds && st.Wait > 0 {
		st.Wait = 0
		s.Parks[""] = st
	}
}

// taken are the calls that began between the mark and this one, which is among
// the lost, and were taken.
func (s *state) taken(c call) int64 { return clamp(c.N-s.MarkN-s.Lost, 0, maxTaken) }

// learnCap takes the calls in flight before the refused one, which were accepted.
func (s *state) learnCap(c call, until int64) {
	s.Crowd = 1
	s.Cap, s.CapAt = 1000*max(c.Flight-1, 1), until
	s.CapWait = clamp(2*s.CapWait, firstCap, mostCap)
	s.Safe, s.Proven, s.Grown = max(c.Flight-2, 1), 0, 0
}

// learnRate takes what the provider let through since the mark.
func (s *state) learnRate(c call, now, until int64) {
	taken, elapsed := s.taken(c), max(c.Begun-s.MarkAt, 1)
	if s.Rate == 0 {
		taken = max(taken, 1) // refused at once: something else uses the limit too
	}
	switch {
	case s.Anew == 1:
		elapsed += priorBurst
	default:
		elapsed = max(elapsed-s.Idle, 1)
	}
	estimate := min(taken*callUnit/elapsed, maxRate)
	if now-s.EventAt > smoothFor {
		s.Smooth = 0
	}
	switch {
	case s.Rate == 0:
		s.Rate = estimate * 97 / 100
	case taken > 0 && s.Anew == 0 && c.Begun-s.ParkTo < earlyWithin: // our own burst was too much
		s.Rate = clamp(estimate*97/100, s.Rate*7/10, s.Rate*95/100)
		s.Smooth = min(s.Smooth+1, mostSmooth)
	default:
		s.Rate = clamp(estimate*97/100, s.Rate/2, s.Rate*95/100)
	}
	s.sure(estimate)
	s.Rate = max(s.Rate, minRate)
	s.Estimate = max(estimate, s.Rate)
	s.Req, s.GrowAt = 0, until+growPause
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
func (s *state) grow(l Limits, now int64) {
	s.widen(l, now)
	s.growCap(now)
	if d := now - s.GrowAt; s.Rate > 0 && now-s.Pressed <= freshPress && d >= growStep {
		if gain := s.gain(min(d, 1000)); gain > 0 {
			s.Rate, s.GrowAt = min(s.Rate+gain, maxRate), now
		}
	}
	if s.ToldAt > 0 && now-s.ToldAt > toldFor {
		s.ToldRate, s.ToldTPM, s.ToldAt = 0, 0, 0
	}
}

// growCap tries a call more, or an eighth, some time after the last refusal, and
// soon where the last step was taken well.
func (s *state) growCap(now int64) {
	proven := s.Grown == 1 && s.Proven >= enough
	wait := s.CapWait
	if proven {
		wait = leastCap
	}
	if s.Cap == 0 || now-s.Full > freshPress || now-s.CapAt < wait {
		return
	}
	if proven {
		s.CapWait = max(s.CapWait/2, firstCap)
	}
	s.Safe = max(s.Cap/1000, 1)
	s.Cap = min(s.Cap+max(s.Cap/8000*1000, 1000), 1000*maxFlight)
	s.CapAt, s.Grown, s.Proven = now, 1, 0
}

// widen has a window grow also while long calls do not come back: a provider
// refuses at once.
func (s *state) widen(l Limits, now int64) {
	if s.starting(l) && now-s.Full <= freshPress && now-s.WindowAt >= widenEvery {
		s.Window = min(s.window()*3/2, 1000*maxFlight)
		s.WindowAt = now
	}
}

// gain is by how much the rate grows in d ms, or by less for slow models: a
// step must not be large where a call is seldom.
func (s *state) gain(d int64) int64 {
	if 1000*s.Rate > s.Estimate*fastFrom {
		return s.Rate * clamp(s.Rate*fastCall/60_000, 1, fastMille) * d / 1_000_000
	}
	return s.Estimate * clamp(s.Rate*growCall/60_000, 1, growMille>>max(s.Sure-1, 0)) * d / 1_000_000
}
