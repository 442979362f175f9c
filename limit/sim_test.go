package limit

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// hidden is a provider whose limits nobody is told, in virtual time.
type hidden struct {
	rpm         func(since time.Duration) float64 // 0: no limit
	burst       float64                           // calls; 0: a second of the rate
	concurrency int                               // 0: no limit
	latency     func(*rand.Rand) time.Duration
	refusal     time.Duration // how long a 429 takes
	retryAfter  bool
	headers     bool
	slots       int
	seed        uint64
	workers     int
	lines       int
	limits      Limits
	most        time.Duration // gives up after that
}

// simulated is a run.
type simulated struct {
	hidden
	pacer  Pacer
	rand   *rand.Rand
	start  time.Time
	now    time.Duration
	events []event

	tokens   float64 // of the provider's bucket
	filledAt time.Duration
	inFlight int

	waiting       int // lines nobody took yet
	done, refused int
	early         int // calls let go while the model was parked
	until         time.Duration
	nextID        int
	asked         int           // questions to the pacer
	longest       time.Duration // of the waits that were told
}

type event struct {
	at time.Duration
	do func()
}

func (h hidden) run() *simulated {
	s := &simulated{hidden: h, rand: rand.New(rand.NewPCG(h.seed, 2)), start: time.UnixMilli(1_750_000_000_000)}
	s.pacer = NewMemory(func(Model) Limits { return h.limits }, s.clock)
	s.waiting = h.lines
	s.tokens = s.bucket()
	return s
}

func (s *simulated) clock() time.Time { return s.start.Add(s.now) }

func (s *simulated) bucket() float64 {
	if s.burst > 0 {
		return s.burst
	}
	return max(s.rpm(s.now)/60, 1)
}

func (s *simulated) at(d time.Duration, do func()) {
	s.events = append(s.events, event{s.now + d, do})
}

// play runs until all lines are done.
func (s *simulated) play() *simulated {
	for range s.slots * s.workers {
		s.at(time.Duration(s.rand.IntN(int(20*time.Millisecond))), s.next)
	}
	for len(s.events) > 0 && s.done < s.lines && s.now < s.most {
		i := 0
		for j := range s.events {
			if s.events[j].at < s.events[i].at {
				i = j
			}
		}
		e := s.events[i]
		s.events = slices.Delete(s.events, i, i+1)
		s.now = e.at
		e.do()
	}
	return s
}

// next takes a line.
func (s *simulated) next() {
	if s.waiting == 0 {
		return
	}
	s.waiting--
	s.attempt()
}

func (s *simulated) attempt() {
	s.nextID++
	s.ask(strconv.Itoa(s.nextID))
}

// network is how long a message to the pacer or the provider is under way.
func (s *simulated) network() time.Duration {
	return time.Duration(200+s.rand.IntN(1500)) * time.Microsecond
}

func (s *simulated) ask(ticket string) {
	slot, _ := s.pacer.Reserve(context.Background(), Ask{Model: model, Ticket: ticket, Tokens: 100, Lease: time.Minute})
	s.asked++
	s.longest = max(s.longest, slot.Wait)
	switch slot.Verdict {
	case Go:
		if s.now < s.until {
			s.early++
		}
		s.at(s.network(), func() { s.arrive(ticket) })
	case Wait:
		s.at(slot.Wait+s.network(), func() { s.ask(ticket) })
	case Refuse: // a deferral is a second at least
		s.at(slot.Wait.Truncate(time.Second)+time.Second, s.attempt)
	}
}

// arrive is a call's way through the provider.
func (s *simulated) arrive(ticket string) {
	ok, wait := s.take()
	r := Result{Kind: Limited}
	took := s.refusal
	if s.retryAfter {
		r.RetryAfter = max(wait.Truncate(time.Second)+time.Second, time.Second)
	}
	if ok {
		took = s.latency(s.rand)
		r = Result{Kind: Passed, Latency: took, Tokens: 100}
	}
	if s.headers {
		r.Told.Requests = s.header()
	}
	s.inFlight++
	s.at(took, func() {
		s.inFlight--
		s.at(s.network(), func() { s.answered(ticket, r) })
	})
}

func (s *simulated) header() Budget {
	limit := s.rpm(s.now)
	left := max(s.tokens, 0)
	return Budget{
		Known: true, Limit: int64(limit), Remaining: int64(left),
		Reset: time.Duration((s.bucket() - left) / limit * float64(time.Minute)),
	}
}

func (s *simulated) take() (bool, time.Duration) {
	if s.concurrency > 0 && s.inFlight >= s.concurrency {
		return false, 0
	}
	if s.rpm == nil {
		return true, 0
	}
	perMinute := s.rpm(s.now)
	s.tokens = min(s.bucket(), s.tokens+float64(s.now-s.filledAt)*perMinute/float64(time.Minute))
	s.filledAt = s.now
	if s.tokens < 1 {
		return false, time.Duration((1 - s.tokens) / perMinute * float64(time.Minute))
	}
	s.tokens--
	return true, 0
}

func (s *simulated) answered(ticket string, r Result) {
	parked, _ := s.pacer.Settle(context.Background(), model, ticket, r)
	if r.Kind == Limited {
		s.refused++
		s.until = max(s.until, s.now.Truncate(time.Millisecond)+parked)
		s.attempt()
		return
	}
	s.done++
	s.next()
}

// ideal is how long a client takes that knows the limits.
func (s *simulated) ideal() time.Duration {
	latency := s.latency(rand.New(rand.NewPCG(0, 0)))
	slots := s.slots * s.workers
	if s.concurrency > 0 {
		slots = min(slots, s.concurrency)
	}
	byFlight := time.Duration((s.lines+slots-1)/slots) * latency
	if s.rpm == nil {
		return byFlight
	}
	left, at := float64(s.lines), time.Duration(0)
	burst := s.burst
	if burst == 0 {
		burst = max(s.rpm(0)/60, 1)
	}
	for left -= burst; left > 0; at += 10 * time.Millisecond {
		left -= s.rpm(at) / 6000
	}
	return max(at+latency, byFlight)
}

// share of the calls that were refused.
func (s *simulated) share() float64 { return float64(s.refused) / float64(max(s.done+s.refused, 1)) }

// ratio to the ideal time.
func (s *simulated) ratio() float64 {
	if s.done < s.lines {
		return 99
	}
	return float64(s.now) / float64(s.ideal())
}

func steady(rpm float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rpm }
}

func always(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}
