package limit

import "time"

// The units of the buckets: a rate of one thousandth of a call a minute fills one
// unit a millisecond, and so does a token a minute. So all arithmetic is exact, in
// Go and in the 53 bits of a Lua number.
const (
	callUnit  = 1000 * 60_000
	tokenUnit = 60_000
)

// Bounds of what is asked, told and configured: nonsense is cut to them, so that
// no product leaves 53 bits and no single figure stops a fleet.
const (
	maxRPM    = 10_000_000
	maxTPM    = 10_000_000_000
	maxFlight = 1_000_000
	maxTokens = 10_000_000     // of one call
	maxAhead  = 10_000_000_000 // tokens of all that wait before one
	maxTaken  = 100_000_000    // calls between two refusals

	exactRanks = 100 // places before one whose tokens are added up

	keepEvery  = 600_000 // ms
	maxElapsed = 60_000  // ms for which a bucket is filled at once: more than any holds
)

const (
	defaultPatience = 30 * time.Second
	maxPatience     = 24 * time.Hour
	defaultLease    = 10 * time.Minute
	maxLease        = 24 * time.Hour

	shortPoll = 5    // ms, the shortest wait
	longPoll  = 1000 // ms, the longest: limits that change are followed after that
	parkPoll  = 2000 // ms, likewise while parked, which changes seldom
	placeKept = 3000 // ms for which a place outlives the promised question

	tokenBurst = 10_000 // ms of tokens a bucket holds, see doc.go
)

// state is the pace of one model. Times are ms of the store's clock; a zero state
// is a model that nobody called. lua/pace.lua has the same fields in this order.
type state struct {
	numbers
	Calls  map[string]call  // in flight, by ticket
	Places map[string]place // waiting, by ticket
	Parks  map[string]State // by lane, "" for the model
}

// numbers are the whole numbers of a state.
type numbers struct {
	At      int64 // of the last operation
	Kept    int64 // when Redis was last told how long to keep it
	Req     int64 // the requests' bucket, in call units
	Tok     int64 // the tokens' bucket, in token units; below zero: a debt
	Flight  int64 // len(Calls)
	Waiting int64 // len(Places)
	NextEnd int64 // no call or place ends before; 0: there is none
	Seq     int64 // the last place's
	WaitTok int64 // tokens of all places

	Last    int64 // when a call was last let go
	Begun   int64 // calls let go, ever
	Passed  int64 // calls the provider took, ever
	Limited int64 // calls it refused, ever
	Latency int64 // average, µs

	adapted
}

// call is one in flight.
type call struct {
	N      int64 // its number, by Begun
	Begun  int64
	Flight int64 // calls in flight with it, when it began
	Tokens int64 // estimate
	End    int64 // of its lease
}

// place is one that waits.
type place struct {
	Seq    int64
	Tokens int64
	End    int64
}

func newState() *state {
	return &state{Calls: map[string]call{}, Places: map[string]place{}, Parks: map[string]State{}}
}

// begin brings the state to now, before every operation.
func (s *state) begin(l Limits, now int64) {
	elapsed := min(now-s.At, maxElapsed)
	switch {
	case now < s.At-maxStepBack.Milliseconds():
		s.forget()
		elapsed = maxElapsed
	case s.At == 0:
		elapsed = maxElapsed
	case elapsed < 0:
		elapsed = 0
	}
	if now-s.Kept >= keepEvery {
		s.Kept = now
	}
	s.sweep(now)
	s.grow(l, now)
	s.refill(l, elapsed, now)
	s.At = now
}

// forget voids all that has a time, after a leap of the clock. What was learned stays.
func (s *state) forget() {
	n := numbers{Begun: s.Begun, Passed: s.Passed, Limited: s.Limited, Latency: s.Latency}
	n.adapted = adapted{
		Window: s.Window, Rate: s.Rate, Estimate: s.Estimate, Sure: s.Sure, Smooth: s.Smooth,
		Cap: s.Cap, CapWait: s.CapWait, Safe: s.Safe,
	}
	*s = *newState()
	s.numbers = n
}

// refill fills the buckets for the time that passed. A bucket without a rate is empty.
func (s *state) refill(l Limits, elapsed, now int64) {
	if rate := s.rate(l, now); rate > 0 {
		s.Req = min(s.Req+elapsed*rate, s.burst(rate))
	} else {
		s.Req = 0
	}
	if tpm := s.tpm(l); tpm > 0 {
		s.Tok = min(s.Tok+elapsed*tpm, tpm*tokenBurst)
	} else {
		s.Tok = 0
	}
}

// sweep removes calls whose lease ended and places whose owner does not ask.
func (s *state) sweep(now int64) {
	if s.NextEnd == 0 || now < s.NextEnd {
		return
	}
	for ticket, c := range s.Calls {
		if c.End <= now {
			delete(s.Calls, ticket)
		}
	}
	for ticket, p := range s.Places {
		if p.End <= now {
			s.leave(ticket)
		}
	}
	s.Flight = int64(len(s.Calls))
	s.NextEnd = s.firstEnd()
}

func (s *state) firstEnd() (first int64) {
	for _, c := range s.Calls {
		first = least(first, c.End)
	}
	for _, p := range s.Places {
		first = least(first, p.End)
	}
	return first
}

// leave gives up a place, if there is one.
func (s *state) leave(ticket string) {
	if p, ok := s.Places[ticket]; ok {
		delete(s.Places, ticket)
		s.Waiting--
		s.WaitTok -= p.Tokens
	}
}

// end gives up the slot of a call.
func (s *state) end(ticket string) {
	delete(s.Calls, ticket)
	s.Flight--
}

// ahead are the places before the ticket's, or all where it has none, and their
// tokens; far behind, their share of all.
func (s *state) ahead(ticket string) (rank, tokens int64) {
	own, ok := s.Places[ticket]
	if !ok {
		return s.Waiting, s.WaitTok
	}
	for _, p := range s.Places {
		if p.Seq < own.Seq {
			rank++
			tokens += p.Tokens
		}
	}
	if rank > exactRanks {
		tokens = min(s.WaitTok, maxAhead) * rank / s.Waiting
	}
	return rank, tokens
}

// parked returns for how many ms the lane is still parked.
func (s *state) parked(lane string, now int64) int64 { return Parked(s.Parks[lane], now) }

// park applies one refusal to a lane and returns for how many ms it is parked.
func (s *state) park(lane string, retryAfter, now int64) int64 {
	st, until := Park(s.Parks[lane], millis(retryAfter), now)
	s.Parks[lane] = st
	return until - now
}

// least is the smaller of two, where zero is none.
func least(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

func clamp(n, low, high int64) int64 { return min(max(n, low), high) }

// ceil is a ÷ b, rounded up, for positive b.
func ceil(a, b int64) int64 {
	if a <= 0 {
		return 0
	}
	return (a + b - 1) / b
}
