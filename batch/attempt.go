package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
	"nightshift/provider"
)

// The replies of begin.lua.
const (
	beginGranted = 1
	beginHeld    = 3
)

// The replies of checkpoint.lua, suspend.lua and finish.lua.
const (
	attemptDone      = 1
	attemptFenced    = 2
	attemptCancelled = 3 // checkpoint.lua
)

// verdicts maps the other replies of begin.lua.
var verdicts = map[int64]Verdict{2: Over, 4: BatchCancelled, 5: DeadlinePassed, 6: Lost}

// fetchLimit bounds how long Begin tries to give a lease back.
const fetchLimit = 5 * time.Second

var validToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Begin takes a lease on a line, or says why not. The token must be unique to
// the attempt: up to 64 letters, digits, '_' and '-'. A begin repeated with the
// token of the live lease is granted again.
func (s *Redis) Begin(ctx context.Context, ref Ref, token string) (Begun, error) {
	if !validToken.MatchString(token) {
		return Begun{}, fmt.Errorf("begin %s: the token %q is not one", ref, token)
	}
	q, done := s.beginning(ref, token)
	defer done()
	var p convoy.Party
	answer := p.Add(q.call)
	s.begins.Send(ctx, &p)
	return s.begun(ctx, q, answer)
}

// beginning is the question of a begin.
type beginning struct {
	lease Lease
	call  convoy.Call
	known Description // of the batch, where it was read before
}

// beginning makes the question; done must be called when the answer was read.
func (s *Redis) beginning(ref Ref, token string) (q beginning, done func()) {
	have, done := s.cache.ask(ref)
	raw, d := s.cache.lastDescription(ref.Batch)
	return beginning{Lease{ref, token}, convoy.Call{
		Script: s.scripts.begin, Keys: []string{metaKey(ref.Batch)},
		Shared: []any{s.nowArg(), s.opt.Lease.Milliseconds(), maxCrashes, raw},
		Own:    []any{ref.Line, ref.Generation, token, have},
	}, d}, done
}

// begun reads the answer to a begin.
func (s *Redis) begun(ctx context.Context, q beginning, answer *convoy.Answer) (Begun, error) {
	ref := q.lease.Ref
	v, err := answer.Slice()
	if err != nil {
		return Begun{}, fmt.Errorf("begin %s: %w", ref, err)
	}
	now, err := strconv.ParseInt(v[1].(string), 10, 64)
	if err != nil {
		return Begun{}, fmt.Errorf("begin %s: %w", ref, err)
	}
	b := Begun{Now: fromMS(now)}
	switch code := v[0].(int64); code {
	case beginGranted:
		b.Verdict = Granted
		b.Description = q.known
		return s.granted(ctx, q.lease, b, v[2:])
	case beginHeld:
		wait, err := strconv.ParseInt(v[2].(string), 10, 64)
		if err != nil {
			return Begun{}, fmt.Errorf("begin %s: %w", ref, err)
		}
		b.Verdict, b.HeldFor = Held, time.Duration(wait)*time.Millisecond
	default:
		b.Verdict = verdicts[code]
	}
	return b, nil
}

// granted adds to b what a grant says, and the line itself. If that fails, the lease is given
// back, so that the line need not wait for its end.
func (s *Redis) granted(ctx context.Context, l Lease, b Begun, v []any) (_ Begun, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin %s: %w", l.Ref, err)
			back, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
			defer cancel()
			_ = s.Suspend(back, l, b.Progress, Wait{}) // else the lease ends by itself
		}
	}()
	if body := v[4].(string); body != "" {
		if err := json.Unmarshal([]byte(body), &b.Progress); err != nil {
			return b, fmt.Errorf("read progress: %w", err)
		}
	}
	if raw := v[0].(string); raw != "" {
		if b.Description, err = s.cache.describe(l.Ref.Batch, raw); err != nil {
			return b, fmt.Errorf("read description: %w", err)
		}
	}
	if b.Crashes, err = strconv.Atoi(v[3].(string)); err != nil {
		return b, err
	}
	if b.Outstanding, err = strconv.ParseInt(v[5].(string), 10, 64); err != nil {
		return b, err
	}
	deadline, err := strconv.ParseInt(v[7].(string), 10, 64)
	if err != nil {
		return b, err
	}
	b.Description.Deadline = fromMS(deadline)
	lines, err := s.chunkSent(ctx, chunkID{l.Ref.Batch, b.Description.Digest, v[1].(string)}, v[6].(string))
	if err != nil {
		return b, err
	}
	b.Line, err = lineOf(lines, l.Ref.Line)
	return b, err
}

// Checkpoint writes the progress before a further call and books its cost; it
// renews the lease too. It returns ErrFenced or ErrCancelled where no further
// call may start.
//
// p is the whole progress of the line: what Begin gave and this attempt's calls
// after it. The same holds for Suspend and Finish.
func (s *Redis) Checkpoint(ctx context.Context, l Lease, p Progress) error {
	calls, cost, body, err := progressArgs(p)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", l.Ref, err)
	}
	return s.attempt(ctx, "checkpoint", s.scripts.checkpoint, l, nil, s.nowArg(), s.opt.Lease.Milliseconds(),
		l.Ref.Line, l.Ref.Generation, l.Token, calls, cost, p.Deferrals, body)
}

// Suspend frees the lease and puts the line back to waiting. A zero Wait hands
// the line back: it is ready at once and does not count as deferred. It returns
// ErrFenced where the lease is another's or the line has a record; the
// attempt's calls are booked as waste then.
func (s *Redis) Suspend(ctx context.Context, l Lease, p Progress, w Wait, riders ...Rider) error {
	calls, cost, body, err := progressArgs(p)
	if err != nil {
		return fmt.Errorf("suspend %s: %w", l.Ref, err)
	}
	var waits []byte
	if w != (Wait{}) {
		if waits, err = json.Marshal(w); err != nil {
			return fmt.Errorf("suspend %s: %w", l.Ref, err)
		}
	}
	return s.attempt(ctx, "suspend", s.scripts.suspend, l, riders,
		l.Ref.Line, l.Ref.Generation, l.Token, calls, cost, p.Deferrals, body, waits, w.Reason)
}

// Finish writes the record, once. Succeeded is accepted from every attempt of
// the line's generation while there is no record, anything else only from the
// lease's own. Otherwise it returns ErrFenced, and the calls are booked as
// waste. It is idempotent by the lease's token.
func (s *Redis) Finish(ctx context.Context, l Lease, p Progress, o Outcome, r Result, riders ...Rider) error {
	c, err := s.finishing(l, p, o, r)
	if err != nil {
		return fmt.Errorf("finish %s: %w", l.Ref, err)
	}
	return s.tell(ctx, "finish", l, riders, c)
}

// finishing is the call that writes a record.
func (s *Redis) finishing(l Lease, p Progress, o Outcome, r Result) (convoy.Call, error) {
	letter, err := letterOf(o)
	if err != nil {
		return convoy.Call{}, err
	}
	r.Nightshift.Generation = l.Ref.Generation
	js, err := r.Encode()
	if err != nil {
		return convoy.Call{}, err
	}
	calls, cost, err := callsOf(p)
	code := noCode
	if o != Succeeded {
		code = codeOf(r)
	}
	return convoy.Call{
		Script: s.scripts.finish, Keys: []string{metaKey(l.Ref.Batch)}, Shared: []any{s.nowArg()},
		Own: []any{
			l.Ref.Line, l.Ref.Generation, l.Token, calls, cost, p.Deferrals,
			letter, oneIf(r.Nightshift.Degraded), oneIf(r.Nightshift.Cached), s.records.Pack(js), r.Nightshift.Model, code,
		},
	}, err
}

// Rider adds calls to the party that writes the end of an attempt, so that they
// cost no round trip of their own. Each has its own answer and error; none changes
// what becomes of the line. They may run though the write fails.
type Rider func(p *convoy.Party)

// attempt runs a script that takes one attempt at a time.
func (s *Redis) attempt(ctx context.Context, verb string, script *redis.Script, l Lease, riders []Rider, args ...any) error {
	return s.tell(ctx, verb, l, riders, convoy.Call{Script: script, Keys: []string{metaKey(l.Ref.Batch)}, Own: args, Alone: true})
}

// tell sends what ends an attempt, and its riders.
func (s *Redis) tell(ctx context.Context, verb string, l Lease, riders []Rider, c convoy.Call) error {
	var p convoy.Party
	for _, ride := range riders {
		ride(&p)
	}
	answer := p.Add(c)
	s.ends.Send(ctx, &p)
	return endOf(verb, l, answer)
}

// endOf is what a script says to an attempt.
func endOf(verb string, l Lease, answer *convoy.Answer) error {
	code, err := answer.Int()
	if err == nil {
		switch code {
		case attemptDone:
			return nil
		case attemptFenced:
			err = ErrFenced
		case attemptCancelled:
			err = ErrCancelled
		}
	}
	return fmt.Errorf("%s %s: %w", verb, l.Ref, err)
}

// Renew renews leases, also expired ones that nobody took; the returned ones
// are lost: finished or taken. An error says nothing about those not returned.
func (s *Redis) Renew(ctx context.Context, ls []Lease) (lost []Lease, err error) {
	byBatch := map[string][]Lease{}
	for _, l := range ls {
		byBatch[l.Ref.Batch] = append(byBatch[l.Ref.Batch], l)
	}
	var calls []scriptCall
	for id, mine := range byBatch {
		args := []any{s.nowArg(), s.opt.Lease.Milliseconds()}
		for _, l := range mine {
			args = append(args, l.Ref.Line, l.Ref.Generation, l.Token)
		}
		calls = append(calls, scriptCall{id, args})
	}
	cmds, err := s.runMany(ctx, s.scripts.renew, calls)
	for i, cmd := range cmds {
		places, err := cmd.Int64Slice()
		if err != nil {
			continue // the pipeline's error says it
		}
		for _, p := range places {
			lost = append(lost, byBatch[calls[i].batch][p])
		}
	}
	if err != nil {
		return lost, fmt.Errorf("renew %d leases: %w", len(ls), err)
	}
	return lost, nil
}

// progressArgs returns what scripts count of a progress, and its JSON.
func progressArgs(p Progress) (calls int, cost int64, body []byte, err error) {
	if calls, cost, err = callsOf(p); err != nil {
		return 0, 0, nil, err
	}
	body, err = json.Marshal(p)
	return calls, cost, body, err
}

// callsOf is how many calls a progress has, and what they cost.
func callsOf(p Progress) (calls int, cost int64, err error) {
	var sum provider.USD
	for _, c := range p.Calls {
		if c.Cost < 0 {
			return 0, 0, fmt.Errorf("a call to %s costs %s USD", c.Model, c.Cost)
		}
		sum += c.Cost
	}
	return len(p.Calls), int64(sum), nil
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// String names the line for errors and logs.
func (r Ref) String() string { return fmt.Sprintf("%s line %d", r.Batch, r.Line) }
