package limit

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// recorder is a pacer that keeps the moves of a simulation.
type recorder struct {
	*Memory
	last   time.Time
	moves  []move
	limits Limits
	most   int
}

func (r *recorder) record(m move, ticket string) {
	now := r.clock().Truncate(time.Millisecond)
	m.Later, r.last = now.Sub(r.last), now
	m.Ticket, _ = strconv.Atoi(ticket)
	m.Limits = r.limits
	if len(r.moves) < r.most {
		r.moves = append(r.moves, m)
	}
}

func (r *recorder) Reserve(ctx context.Context, a Ask) (Slot, error) {
	r.record(move{Op: "reserve", Ask: a}, a.Ticket)
	return r.Memory.Reserve(ctx, a)
}

func (r *recorder) Settle(ctx context.Context, m Model, ticket string, res Result) (time.Duration, error) {
	r.record(move{Op: "settle", Result: res}, ticket)
	return r.Memory.Settle(ctx, m, ticket, res)
}

// recorded are the moves of a simulation; random lives seldom learn so much.
func recorded(most int, change func(*hidden)) []move {
	h := issues()
	change(&h)
	s := h.run()
	r := &recorder{Memory: s.pacer.(*Memory), limits: h.limits, last: s.start, most: most}
	s.pacer = r
	s.play()
	return r.moves
}

func simulations() [][]move {
	return [][]move{
		recorded(2500, func(h *hidden) { h.slots = 20 }),
		recorded(2500, func(h *hidden) { h.slots, h.rpm, h.burst = 20, halvesAndDoubles, 1 }),
		recorded(2500, func(h *hidden) { h.slots, h.headers = 20, true }),
		recorded(2500, func(h *hidden) { h.slots, h.rpm, h.concurrency = 20, nil, 4 }),
		recorded(1500, func(h *hidden) { h.slots, h.limits = 20, Limits{RPM: 600, TPM: 30_000, Concurrency: 8} }),
		recorded(600, func(h *hidden) { h.slots, h.rpm, h.latency = 20, nil, always(10*time.Second) }),
	}
}

// replay makes the moves on both; the whole states are compared now and then.
func replay(r *Redis, list []move) error {
	p := newPair(r)
	defer r.rdb.Del(context.Background(), paceKeys(p.m)...)
	for i, m := range list {
		p.now += m.Later.Milliseconds()
		p.limits = m.Limits
		err := p.steps([]move{m})
		if err == nil && (i%20 == 0 || m.Result.Kind == Limited || i == len(list)-1) {
			err = p.same()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestScriptsAgreeWithStepsInSimulations(t *testing.T) {
	rdb := redistest.Client(t)
	for _, list := range append(simulations(), learning(), bursts(), toldLife()) {
		if err := replay(NewRedis(rdb, nil), list); err != nil {
			t.Error(err)
		}
	}
}

// learning are lives that end in what a simulation seldom meets.
func learning() []move {
	limited := func(later time.Duration, ticket int) []move {
		return []move{{Op: "reserve", Ticket: ticket}, {Op: "settle", Ticket: ticket, Later: later, Result: Result{Kind: Limited}}}
	}
	var list []move
	for i := range 40 { // streaks, smoothing, and what is forgotten after minutes
		list = append(list, limited(time.Duration(i%3)*time.Second, i)...)
		list = append(list, move{Op: "reserve", Ticket: 1000 + i, Later: time.Duration(1+i%5) * time.Second})
		list = append(list, move{Op: "settle", Ticket: 1000 + i, Later: time.Second, Result: Result{Kind: Passed, Latency: time.Second}})
		if i%10 == 9 {
			list = append(list, move{Op: "reserve", Ticket: 2000 + i, Later: 6 * time.Minute})
		}
	}
	return list
}

// script makes moves one by one; tickets are numbered.
type script struct {
	moves []move
	n     int
}

// begin reserves after a time, and returns the ticket.
func (s *script) begin(later time.Duration) int {
	s.n++
	s.moves = append(s.moves, move{Op: "reserve", Ticket: s.n, Later: later})
	return s.n
}

func (s *script) end(later time.Duration, ticket int, r Result) {
	s.moves = append(s.moves, move{Op: "settle", Ticket: ticket, Later: later, Result: r})
}

// pass makes calls that are taken, one after another.
func (s *script) pass(n int, every time.Duration) {
	for range n {
		s.end(time.Millisecond, s.begin(every), Result{Kind: Passed, Latency: time.Millisecond})
	}
}

func (s *script) limited(later, retryAfter time.Duration) {
	s.end(time.Millisecond, s.begin(later), Result{Kind: Limited, RetryAfter: retryAfter})
}

// bursts are refusals soon after parks, then late ones.
func bursts() []move {
	var s script
	s.pass(300, time.Millisecond)
	s.limited(10*time.Millisecond, 0)
	s.pass(1, time.Second)
	s.pass(8, 200*time.Millisecond) // enough to end the streak
	s.limited(10*time.Millisecond, 0)
	for range 6 {
		s.pass(1, 1100*time.Millisecond)
		s.limited(300*time.Millisecond, time.Second)
	}
	s.limited(4*time.Second, 3*time.Second)
	s.pass(3, 4*time.Second)
	s.limited(4*time.Second, 0)
	s.pass(3, 6*time.Minute)
	s.limited(4*time.Second, 0)
	s.pass(3, time.Second)
	return s.moves
}

// told are headers of calls at once, in and out of their order.
func toldLife() []move {
	var s script
	says := func(remaining int64, reset time.Duration) Result {
		return Result{Kind: Passed, Told: Told{Requests: Budget{Known: true, Limit: 600, Remaining: remaining, Reset: reset}}}
	}
	three := func(later time.Duration) (a, b, c int) { return s.begin(later), s.begin(0), s.begin(0) }
	a, b, c := three(0)
	s.end(time.Millisecond, a, says(2, time.Second))
	s.pass(2, time.Millisecond)
	s.end(time.Millisecond, b, says(0, 20*time.Second))
	s.end(time.Millisecond, c, says(0, time.Second))
	s.pass(3, 2*time.Second)
	a, b, c = three(30 * time.Second)
	s.end(10*time.Millisecond, a, says(0, time.Minute))
	s.pass(3, 20*time.Millisecond)
	s.end(time.Millisecond, b, says(0, 5*time.Second))
	s.end(time.Millisecond, c, says(-1, 0))
	s.pass(3, time.Second)
	s.pass(3, 11*time.Minute) // what was told is too old
	return s.moves
}

// crowds are places that change in one script.
func crowds() []move {
	ask := func(ticket int, tokens int64, patience time.Duration) move {
		return move{Op: "reserve", Ticket: ticket, Ask: Ask{Tokens: tokens, Patience: patience}, Limits: Limits{TPM: 600}}
	}
	together := func(m move) move { m.Together = true; return m }
	list := []move{ask(1, 100, time.Hour), ask(2, 50, time.Hour), ask(3, 50, time.Hour)}
	list = append(list, ask(2, 90, time.Hour), together(ask(3, 50, 12*time.Second)))             // it stands behind more tokens
	list = append(list, ask(2, 90, 1), together(ask(3, 50, 1)), together(ask(4, 50, time.Hour))) // none stands before it
	return list
}

func TestEveryMutationOfTheScriptsIsNoticed(t *testing.T) {
	rdb := redistest.Client(t)
	short, long := [][]move{learning(), bursts(), toldLife()}, simulations()
	random := make([][]move, 250)
	for seed := range random {
		random[seed] = genLives.Example(seed)
	}
	// The short ones first: they notice nearly all, and the simulations take long.
	all := func(r *Redis) error {
		for _, list := range short {
			if err := replay(r, list); err != nil {
				return err
			}
		}
		if err := runLives(r, crowds()); err != nil {
			return err
		}
		for _, list := range random {
			if err := runLives(r, list); err != nil {
				return err
			}
		}
		for _, list := range long {
			if err := replay(r, list); err != nil {
				return err
			}
		}
		return nil
	}
	if err := all(NewRedis(rdb, nil)); err != nil {
		t.Fatalf("the scripts as they are: %v", err)
	}
	whole := map[string]string{"pace": paceLua, "reserve": reserveLua, "settle": settleLua, "save": saveLua}
	for _, m := range mutations {
		t.Run(m.old, func(t *testing.T) {
			if strings.Count(whole[m.file], m.old) != 1 {
				t.Fatalf("%s.lua does not hold exactly one %q", m.file, m.old)
			}
			if err := all(broken(rdb, whole, m)); err == nil {
				t.Errorf("nobody noticed %q", m.broken)
			}
		})
	}
}

func broken(rdb redis.UniversalClient, whole map[string]string, m mutation) *Redis {
	text := func(file string) string {
		if file == m.file {
			return strings.Replace(whole[file], m.old, m.broken, 1)
		}
		return whole[file]
	}
	head, tail := numbersLua+text("pace"), text("save")
	return newRedis(rdb, nil, head+text("reserve")+tail, head+text("settle")+tail)
}

type mutation struct{ file, old, broken string }

var mutations = []mutation{
	{"pace", "if now < at - MAX_STEP_BACK then", "if false then"},
	{"pace", "elseif elapsed < 0 then", "elseif false then"},
	{"pace", "local keep = now - kept >= KEEP_EVERY", "local keep = false"},
	{"pace", "if next_end ~= 0 and now >= next_end then", "if false then"},
	{"pace", "wait_tok = wait_tok - tokens\n      call('ZREM', places, t)", "wait_tok = wait_tok - tokens"},
	{"pace", "state[t] = nil\n", "\n"},
	{"pace", "next_end = tonumber(call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2] or 0)", "next_end = 0"},
	{"pace", "now - window_at >= WIDEN_EVERY", "false"},
	{"pace", "if proved then wait = LEAST_CAP end", ""},
	{"pace", "safe = max(floor(cap / 1000), 1)", ""},
	{"pace", "and now - pressed <= FRESH_PRESS", ""},
	{"pace", "if 1000 * rate_learned > estimate * FAST_FROM then", "if false then"},
	{"pace", "if told_at > 0 and now - told_at > TOLD_FOR then", "if false then"},
	{"pace", "if n < RAMP_FOR then ramped = 2 ^ (n + 1) end", ""},
	{"pace", "least(least(1000 * rpm, rate_learned), told_rate)", "least(1000 * rpm, rate_learned)"},
	{"pace", "if rate_learned > 0 then burst = floor(LEARN_BURST / 4 ^ smooth) end", ""},
	{"pace", "req = min(req + elapsed * rate, burst)", "req = req + elapsed * rate"},
	{"pace", "tok = min(tok + elapsed * tpm, tpm * TOKEN_BURST)", "tok = tok + elapsed * tpm"},
	{"reserve", "of_lane = left > 0", "of_lane = false"},
	{"reserve", "call('ZRANK', places, ticket) or 0, 0", "0, 0"},
	{"reserve", "if hold > now then", "if false then"},
	{"reserve", "(rank + 1) * CALL_UNIT - req", "CALL_UNIT - req"},
	{"reserve", "min(before, MAX_AHEAD) * TOKEN_UNIT + ", ""},
	{"reserve", "flight + rank + 1 > concurrency", "flight + 1 > concurrency"},
	{"reserve", "grow_at, taught = max(grow_at, now), true", ""},
	{"reserve", "window_at, taught = now, true", ""},
	{"reserve", "now - max(last, park_to, pressed) > IDLE_AFTER", "false"},
	{"reserve", "call('ZREM', places, ticket)", ""},
	{"reserve", "if why ~= 'parked' then needed", "if true then needed"},
	{"reserve", "wait_tok = wait_tok + tokens - place_tokens", "wait_tok = wait_tok + tokens"},
	{"settle", "tok = clamp(tok - (tokens - call_tokens) * TOKEN_UNIT", "tok = clamp(tok - tokens * TOKEN_UNIT"},
	{"settle", "elseif alone then", "elseif false then"},
	{"settle", "if (call_n or 0) > mark_n then lost, taught = lost + 1, true end", ""},
	{"settle", "proven, taught = proven + 1, true", ""},
	{"settle", "if 2000 * was >= w then", "if true then"},
	{"settle", "if latency == 0 then latency = took end", ""},
	{"settle", "if call_n > mark_n then lost", "if false then lost"},
	{"settle", "- min(begun - call_n, MAX_FLIGHT) * CALL_UNIT", ""},
	{"settle", "if 20 * math.abs(reset - 60000) <= 60000 then reset = floor(reset / limit) else", "if false then reset = 0 else"},
	{"settle", "hold = max(hold, call_begun + reset)", "hold = call_begun + reset"},
	{"settle", "if ours and taken >= STREAK_ENDS then wait = 0 end", ""},
	{"settle", "ends_at = max(ends_at, now + retry_after)", "ends_at = now + retry_after"},
	{"settle", "elseif now >= ends_at then", "else"},
	{"settle", "if ours and call_begun < event_at then", "if false then"},
	{"settle", "if crowd == 1 then cap, taught = min(cap", "if false then cap, taught = min(cap"},
	{"settle", "and call_flight > safe and proven < ENOUGH", "and false"},
	{"settle", "if rate_learned == 0 then taken = max(taken, 1) end", ""},
	{"settle", "if anew == 1 then elapsed = elapsed + PRIOR_BURST else", "if false then elapsed = 1 else"},
	{"settle", "if now - event_at > SMOOTH_FOR then smooth = 0 end", ""},
	{"settle", "call_begun - park_to < EARLY_WITHIN", "false"},
	{"settle", "sure = min(sure + 1, MOST_SURE) else", "sure = 0 else"},
	{"settle", "cap_wait = clamp(2 * cap_wait, FIRST_CAP, MOST_CAP)", "cap_wait = FIRST_CAP"},
	{"settle", "if retry_after > TOLD_PAUSE then", "if false then"},
	{"settle", "elseif smooth >= SMOOTH_FROM then", "elseif false then"},
	{"save", "call('ZREM', ends, unpack(ended))", ""},
	{"save", "flight = flight - 1", ""},
	// of calls together
	{"pace", "at, elapsed = now, 0", "at = now"},
	{"reserve", "state[first[i]] or p or ''", "p or ''"},
	{"save", "state[ticket], changed[#changed + 1] = false, ticket", "changed[#changed + 1] = ticket"},
	{"save", "if waiting == 0 then places_was = 0 end -- the next place begins a new set", ""},
	{"save", "stale, learnt, taught = taught, learnt or taught, false", "stale, learnt, taught = false, learnt or taught, false"},
	{"save", "if keep then call('PEXPIRE', key, TTL) end", ""},
	{"save", "if (keep or ends_was == 0)", "if keep"},
	{"save", "if (keep or places_was == 0)", "if keep"},
}
