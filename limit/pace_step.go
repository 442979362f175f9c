package limit

import "time"

// ask is an Ask within bounds, in whole numbers.
type ask struct {
	lane, ticket string
	tokens       int64
	patience     int64 // ms
	lease        int64 // ms
}

// clean brings an Ask within bounds.
func (a *Ask) clean() ask {
	return ask{
		lane: a.Lane, ticket: a.Ticket,
		tokens:   clamp(a.Tokens, 0, maxTokens),
		patience: ms(a.Patience, defaultPatience, maxPatience),
		lease:    ms(a.Lease, defaultLease, maxLease),
	}
}

// ms is d in milliseconds, rounded up and at most the highest; nothing or less
// is the default.
func ms(d, fallback, most time.Duration) int64 {
	if d <= 0 {
		d = fallback
	}
	return ceil(int64(min(d, most)), int64(time.Millisecond))
}

// slot is a Slot in whole numbers.
type slot struct {
	verdict Verdict
	wait    int64 // ms
	reason  Reason
	parked  int64 // ms
}

func (s slot) public() Slot {
	return Slot{Verdict: s.verdict, Wait: millis(s.wait), Reason: s.reason, Parked: millis(s.parked)}
}

// reserve decides on an ask. It is pure, like all that changes a state.
func (s *state) reserve(l Limits, a ask, now int64) slot {
	s.begin(l, now)
	if _, ok := s.Calls[a.ticket]; ok {
		return slot{verdict: Go} // its answer was lost
	}
	if left := s.parked("", now); left > 0 {
		w := s.wait(a, left, parkPoll, ReasonParked, now)
		w.parked = left
		return w
	}
	if left := s.parked(a.lane, now); left > 0 {
		s.leave(a.ticket) // who cannot go must not stand before those who can
		if left > a.patience {
			return slot{Refuse, left, ReasonParked, left}
		}
		return slot{Wait, min(left, parkPoll), ReasonParked, left}
	}
	rank, tokens := s.ahead(a.ticket)
	needed, poll, why := s.room(l, rank, tokens, a.tokens, now)
	if needed > 0 {
		s.press(l, why, now)
		return s.wait(a, needed, min(poll, longPoll), why, now)
	}
	s.let(l, a, now)
	return slot{verdict: Go}
}

// let lets a call begin.
func (s *state) let(l Limits, a ask, now int64) {
	s.leave(a.ticket)
	s.mark(now)
	s.Begun++
	s.Flight++
	s.Calls[a.ticket] = call{N: s.Begun, Begun: now, Flight: s.Flight, Tokens: a.tokens, End: now + a.lease}
	s.NextEnd = least(s.NextEnd, now+a.lease)
	s.spend(l, a.tokens, now)
}

// spend takes a call and its tokens from the buckets. A debt of tokens ends
// within a minute beyond what one full bucket takes.
func (s *state) spend(l Limits, tokens, now int64) {
	if rate := s.rate(l, now); rate > 0 {
		s.Req = max(s.Req-callUnit, -s.burst(rate))
	}
	s.pay(l, tokens)
}

// pay takes tokens from their bucket, or gives them back.
func (s *state) pay(l Limits, tokens int64) {
	if tpm := s.tpm(l); tpm > 0 {
		s.Tok = clamp(s.Tok-tokens*tokenUnit, -tpm*maxDebt, tpm*tokenBurst)
	}
}

// maxDebt is the longest time, in ms, for which one request larger than its
// bucket can keep others waiting.
const maxDebt = 300_000

// wait gives or keeps a place, or refuses where the wait is longer than the patience.
func (s *state) wait(a ask, needed, poll int64, why Reason, now int64) slot {
	if needed > a.patience {
		s.leave(a.ticket)
		return slot{Refuse, later(needed, why), why, 0}
	}
	poll = max(min(needed, poll), shortPoll)
	p, ok := s.Places[a.ticket]
	if !ok {
		s.Seq++
		s.Waiting++
		p.Seq = s.Seq
	}
	s.WaitTok += a.tokens - p.Tokens
	p.Tokens, p.End = a.tokens, now+poll+placeKept
	s.Places[a.ticket] = p
	s.NextEnd = least(s.NextEnd, p.End)
	return slot{Wait, poll, why, 0}
}

// maxLater is the longest time, in ms, until one who was refused asks again.
const maxLater = 300_000

// later is when a refused call is told to ask again: at the end of a park, or
// when half the estimate of a wait has passed, since what limits may have grown.
func later(needed int64, why Reason) int64 {
	if why == ReasonParked {
		return needed
	}
	return clamp(needed/2, longPoll, maxLater)
}

// room says how long, in ms, until there is room for a call behind rank others
// that ask for tokens together; 0: there is. After poll ms asking again is worth it.
func (s *state) room(l Limits, rank, before, tokens, now int64) (needed, poll int64, why Reason) {
	longer := func(wait, p int64, r Reason) {
		if wait > needed {
			needed, poll, why = wait, p, r
		}
	}
	if s.Hold > now {
		d := min(s.Hold-now, maxHold)
		longer(d, d, ReasonParked)
	}
	if rate := s.rate(l, now); rate > 0 {
		d := ceil((rank+1)*callUnit-s.Req, rate)
		longer(d, d, ReasonRequests)
	}
	if tpm := s.tpm(l); tpm > 0 {
		d := ceil(min(before, maxAhead)*tokenUnit+min(tokens*tokenUnit, tpm*tokenBurst)-s.Tok, tpm)
		longer(d, d, ReasonTokens)
	}
	if most := s.concurrency(l, now); most > 0 && s.Flight+rank+1 > most {
		d, p := s.turn(s.Flight+rank+1-most, rank, most)
		if s.starting(l) {
			d, p = min(d, longPoll), min(p, clamp(s.Latency/2000, 20, 500))
		}
		longer(d, p, ReasonConcurrency)
	}
	return needed, poll, why
}

// turn says when the n-th of the calls in flight will have ended, by the average
// latency, and when it is worth asking: the first in line asks eight times
// within what one call takes off the others, so that a free slot does not stay free.
func (s *state) turn(n, rank, most int64) (needed, poll int64) {
	latency := clamp(s.Latency/1000, 8, 600_000) // ms
	needed = max(n*latency/most, 1)
	poll = clamp(latency/32, shortPoll, 250) + rank*latency/most/2
	return needed, poll
}

// outcome is a Result within bounds, in whole numbers.
type outcome struct {
	kind              ResultKind
	retryAfter        int64 // ms; 0: none
	lane              string
	tokens            int64
	latency           int64 // µs
	requests, allowed told
	alone             bool
}

// clean brings a Result within bounds.
func (r *Result) clean() outcome {
	return outcome{
		kind: r.Kind, lane: r.Lane, alone: r.Alone,
		retryAfter: retryMS(r.RetryAfter),
		tokens:     clamp(r.Tokens, 0, maxTokens),
		latency:    clamp(r.Latency.Microseconds(), 0, maxLease.Microseconds()),
		requests:   r.Told.Requests.clean(maxRPM),
		allowed:    r.Told.Tokens.clean(maxTPM),
	}
}

// settle applies the end of a call and returns for how many ms it parked.
func (s *state) settle(l Limits, ticket string, r outcome, now int64) int64 {
	s.begin(l, now)
	c, known := s.Calls[ticket]
	switch {
	case known:
		s.end(ticket)
		if r.tokens > 0 {
			s.pay(l, r.tokens-c.Tokens)
		}
	case r.alone:
		s.Begun++
		s.spend(l, r.tokens, now)
	}
	s.leave(ticket)
	if known || r.alone {
		s.count(c, r)
	}
	if known {
		s.hear(l, c, r, now)
	}
	if r.kind != Limited {
		return 0
	}
	if known && r.lane == "" {
		s.streak(c)
	}
	parked := s.park(r.lane, r.retryAfter, now)
	if known && r.lane == "" {
		s.refused(c, now, parked, r.retryAfter)
	}
	return parked
}

// count keeps the averages.
func (s *state) count(c call, r outcome) {
	switch r.kind {
	case Limited:
		s.Limited++
		s.lose(c)
	case Passed:
		s.Passed++
		s.pass(c, r)
		if r.latency > 0 {
			s.averageLatency(r.latency)
		}
	}
}

func (s *state) averageLatency(us int64) {
	if s.Latency == 0 {
		s.Latency = us
	}
	s.Latency = (7*s.Latency + us) / 8
}

// cancel gives back what a call that was not sent has or waits for.
func (s *state) cancel(l Limits, ticket string, now int64) {
	s.begin(l, now)
	s.leave(ticket)
	c, ok := s.Calls[ticket]
	if !ok {
		return
	}
	s.end(ticket)
	s.lose(c)
	s.pay(l, -c.Tokens)
	if rate := s.rate(l, now); rate > 0 {
		s.Req = min(s.Req+callUnit, s.burst(rate))
	}
}

// parkOnly parks after a refusal that no ticket stands for.
func (s *state) parkOnly(l Limits, lane string, retryAfter, now int64) int64 {
	s.begin(l, now)
	return s.park(lane, retryAfter, now)
}

// restart begins slowly.
func (s *state) restart(l Limits, now int64) {
	s.begin(l, now)
	s.Ramp, s.Req = now, 0
}
