package limit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
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
	pacer  *Memory
	rand   *rand.Rand
	start  time.Time
	now    time.Duration
	events []event

	tokens   float64 // of the provider's bucket
	filledAt time.Duration
	inFlight int

	waiting       int // lines nobody took yet
	done, refused int
	early         int // calls that came while the model was parked
	until         time.Duration
	nextID        int
	trace         func(string, ...any)
}

type event struct {
	at time.Duration
	do func()
}

func (h hidden) run() *simulated {
	s := &simulated{hidden: h, rand: rand.New(rand.NewPCG(h.seed, 2)), start: time.UnixMilli(1_750_000_000_000)}
	s.trace = func(string, ...any) {}
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
	switch slot.Verdict {
	case Go:
		s.at(s.network(), func() { s.arrive(ticket) })
	case Wait:
		s.at(slot.Wait+s.network(), func() { s.ask(ticket) })
	case Refuse: // a deferral is a second at least
		s.at(slot.Wait.Truncate(time.Second)+time.Second, s.attempt)
	}
}

// arrive is a call's way through the provider.
func (s *simulated) arrive(ticket string) {
	if s.now < s.until {
		s.early++
	}
	begun := s.now
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
		s.at(s.network(), func() { s.answered(ticket, r, begun) })
	})
	if !ok {
		s.inFlight-- // a refused call takes no place
		s.inFlight++
	}
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

func (s *simulated) answered(ticket string, r Result, begun time.Duration) {
	parked, _ := s.pacer.Settle(context.Background(), model, ticket, r)
	st := s.pacer.states[model]
	if r.Kind == Limited {
		s.refused++
		s.trace("%8s 429 begun %s parked %s rate %.2f/s estimate %.2f/s cap %d window %d sure %d flight %d proven %d\n", s.now.Round(time.Millisecond), begun.Round(time.Millisecond), parked,
			float64(st.Rate)/60000, float64(st.Estimate)/60000, st.Cap, st.Window, st.Sure, st.Flight, st.Proven)
		s.until = max(s.until, s.now+parked)
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

func (s *simulated) report(name string) (ratio, share float64) {
	ratio = float64(s.now) / float64(s.ideal())
	share = float64(s.refused) / float64(max(s.done+s.refused, 1))
	if s.done < s.lines {
		ratio = 99
	}
	fmt.Printf("%-46s %6.1fs ideal %6.1fs ratio %.3f refused %4d of %5d = %.1f%% early %d\n",
		name, s.now.Seconds(), s.ideal().Seconds(), ratio, s.refused, s.done+s.refused, 100*share, s.early)
	return ratio, share
}

func steady(rpm float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rpm }
}

func always(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

var _ = cmp.Compare[int]
var _ testing.TB

func TestExplore(t *testing.T) {
	ms := time.Millisecond
	base := hidden{rpm: steady(600), burst: 10, latency: always(300 * ms), refusal: 300 * ms, slots: 50, workers: 1, lines: 300, most: time.Hour}
	halves := func(t time.Duration) float64 {
		if t > 12*time.Second && t < 24*time.Second {
			return 300
		}
		return 600
	}
	var list []struct {
		name string
		h    hidden
	}
	add := func(name string, f func(*hidden)) {
		h := base
		f(&h)
		list = append(list, struct {
			name string
			h    hidden
		}{name, h})
	}
	add("600", func(h *hidden) {})
	add("600 fast refusal", func(h *hidden) { h.refusal = 5 * ms })
	add("600 retry-after", func(h *hidden) { h.retryAfter = true })
	add("600 headers", func(h *hidden) { h.headers = true })
	add("600 both fast", func(h *hidden) { h.headers = true; h.retryAfter = true; h.refusal = 5 * ms })
	add("600 8 workers", func(h *hidden) { h.workers = 8 })
	add("600 8 workers fast refusal", func(h *hidden) { h.workers = 8; h.refusal = 5 * ms })
	add("600 3000 lines", func(h *hidden) { h.lines = 3000 })
	add("600 burst 1", func(h *hidden) { h.burst = 1 })
	add("600 burst 1 3000 lines", func(h *hidden) { h.burst = 1; h.lines = 3000 })
	add("600 burst 600 3000 lines", func(h *hidden) { h.burst = 600; h.lines = 3000 })
	add("halves", func(h *hidden) { h.rpm = halves })
	add("halves burst 1 s", func(h *hidden) { h.rpm = halves; h.burst = 0 })
	add("halves retry-after", func(h *hidden) { h.rpm = halves; h.retryAfter = true })
	add("halves headers", func(h *hidden) { h.rpm = halves; h.headers = true })
	add("halves 8 workers", func(h *hidden) { h.rpm = halves; h.workers = 8 })
	add("halves fast refusal", func(h *hidden) { h.rpm = halves; h.refusal = 5 * ms })
	add("concurrency 4 latency 2s 300 lines", func(h *hidden) { h.rpm = nil; h.concurrency = 4; h.latency = always(2000 * ms); h.refusal = 5 * ms })
	add("concurrency 4 latency 2s slow refusal", func(h *hidden) { h.rpm = nil; h.concurrency = 4; h.latency = always(2000 * ms); h.refusal = 2000 * ms })
	add("concurrency 20 latency 300ms 3000 lines", func(h *hidden) {
		h.rpm = nil
		h.concurrency = 20
		h.lines = 3000
		h.refusal = 5 * ms
	})
	add("concurrency 1 latency 1s 100", func(h *hidden) {
		h.rpm = nil
		h.concurrency = 1
		h.latency = always(time.Second)
		h.lines = 100
		h.refusal = 5 * ms
	})
	add("10000 rpm, 3000 lines, 5 s", func(h *hidden) {
		h.rpm = steady(10000)
		h.burst = 0
		h.slots = 1500
		h.lines = 6000
		h.latency = func(r *rand.Rand) time.Duration { return 3*time.Second + time.Duration(r.IntN(4000))*ms }
		h.refusal = 100 * ms
	})
	add("30 rpm, 60 lines", func(h *hidden) { h.rpm = steady(30); h.burst = 1; h.lines = 60 })
	add("5 rpm, 20 lines", func(h *hidden) { h.rpm = steady(5); h.burst = 1; h.lines = 20 })
	add("no limit, 300 ms, 6000 lines, 500 slots", func(h *hidden) { h.rpm = nil; h.slots = 500; h.lines = 6000 })
	add("no limit, 10 s, 500 lines, 100 slots", func(h *hidden) { h.rpm = nil; h.slots = 100; h.lines = 500; h.latency = always(10 * time.Second) })
	add("no limit, 2 ms, 60000 lines", func(h *hidden) { h.rpm = nil; h.slots = 50; h.lines = 60000; h.latency = always(2 * ms) })
	add("configured 600, real 600", func(h *hidden) { h.limits.RPM = 600 })
	add("configured 600, real 300", func(h *hidden) { h.limits.RPM = 600; h.rpm = steady(300); h.burst = 5 })
	if os.Getenv("SWEEP") != "" {
		for _, x := range list {
			if x.h.rpm == nil || x.h.lines != 300 || x.h.limits.RPM > 0 || x.h.burst == 1 {
				continue
			}
			var worst, most, sum, shares float64
			for seed := range uint64(12) {
				x.h.seed = seed
				s := x.h.run().play()
				ratio := float64(s.now) / float64(s.ideal())
				share := float64(s.refused) / float64(s.done+s.refused)
				worst, most, sum, shares = max(worst, ratio), max(most, share), sum+ratio/12, shares+share/12
			}
			fmt.Printf("%-30s mean %.3f worst %.3f refused %.3f worst %.3f\n", x.name, sum, worst, shares, most)
		}
		return
	}
	for _, x := range list {
		s := x.h.run()
		if testing.Verbose() {
			s.trace = func(f string, a ...any) { fmt.Printf(f, a...) }
		}
		s.play().report(x.name)
	}
}
