package limit

import "time"

// told is a Budget within bounds; limit 0: nothing was said.
type told struct {
	limit     int64
	remaining int64 // -1: unknown
	reset     int64 // ms; 0: unknown
}

// clean brings a Budget within bounds. Without a sound limit it says nothing.
func (b Budget) clean(most int64) told {
	if !b.Known || b.Limit <= 0 {
		return told{}
	}
	t := told{limit: min(b.Limit, most), remaining: -1}
	if b.Remaining >= 0 {
		t.remaining = min(b.Remaining, t.limit)
	}
	if b.Reset > 0 {
		t.reset = ceil(int64(min(b.Reset, time.Hour)), int64(time.Millisecond))
	}
	return t
}

// hear learns from the headers of a call's response. They tell of the moment at
// which the call came to the provider: since then its buckets filled, and others
// took from them.
func (s *state) hear(l Limits, c call, r outcome, now int64) {
	age := clamp(now-c.Begun, 0, maxElapsed)
	if t := r.requests; t.limit > 0 {
		s.ToldRate, s.ToldAt = max(t.limit*970, minRate), now
		if t.remaining >= 0 {
			since := s.Begun - c.N
			left := t.remaining*callUnit + age*s.rate(l, now) - min(since, maxFlight)*callUnit
			s.Req = min(s.Req, max(left, 0))
		}
		if t.remaining == 0 {
			s.Hold = max(s.Hold, c.Begun+t.hold())
		}
	}
	if t := r.allowed; t.limit > 0 {
		s.ToldTPM, s.ToldAt = max(t.limit*97/100, 1), now
		if t.remaining >= 0 {
			s.Tok = min(s.Tok, t.remaining*tokenUnit+age*s.tpm(l))
		}
	}
}

// hold is for how many ms nothing remains. Of a bucket that fills by and by, the
// time until it is full is told, and a call is free after its share of that; of
// anything else the end of a window, before which nothing is.
func (t told) hold() int64 {
	full := (t.limit - t.remaining) * 60_000 / t.limit
	if off := t.reset - full; 20*max(off, -off) <= full {
		return t.reset / t.limit
	}
	return min(t.reset, maxHold)
}
