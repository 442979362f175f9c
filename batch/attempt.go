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
	have, asked := s.cache.ask(ref)
	defer asked()
	v, err := s.scripts.begin.Run(ctx, s.rdb, []string{metaKey(ref.Batch)},
		s.nowArg(), s.opt.Lease.Milliseconds(), ref.Line, ref.Generation, token, maxCrashes, have).Slice()
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
		return s.granted(ctx, Lease{ref, token}, b, v[2:])
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
	if b.Description, err = s.cache.describe(l.Ref.Batch, v[0].(string)); err != nil {
		return b, fmt.Errorf("read description: %w", err)
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
		l.Ref.Line, l.Ref.Generation, l.Token, calls, cost, p.Deferrals, body, waits)
}

// Finish writes the record, once. Succeeded is accepted from every attempt of
// the line's generation while there is no record, anything else only from the
// lease's own. Otherwise it returns ErrFenced, and the calls are booked as
// waste. It is idempotent by the lease's token.
func (s *Redis) Finish(ctx context.Context, l Lease, p Progress, o Outcome, r Result, riders ...Rider) error {
	letter, err := letterOf(o)
	if err != nil {
		return fmt.Errorf("finish %s: %w", l.Ref, err)
	}
	r.Nightshift.Generation = l.Ref.Generation
	js, err := r.Encode()
	if err != nil {
		return fmt.Errorf("finish %s: %w", l.Ref, err)
	}
	calls, cost, _, err := progressArgs(p)
	if err != nil {
		return fmt.Errorf("finish %s: %w", l.Ref, err)
	}
	code := noCode
	if o != Succeeded {
		code = codeOf(r)
	}
	return s.attempt(ctx, "finish", s.scripts.finish, l, riders, s.nowArg(),
		l.Ref.Line, l.Ref.Generation, l.Token, calls, cost, p.Deferrals,
		letter, oneIf(r.Nightshift.Degraded), oneIf(r.Nightshift.Cached), s.packer.Pack(js), r.Nightshift.Model, code)
}

// Rider adds calls to the party that writes the end of an attempt, so that they
// cost no round trip of their own. Each has its own answer and error; none changes
// what becomes of the line. They may run though the write fails.
type Rider func(p *convoy.Party)

func (s *Redis) attempt(ctx context.Context, verb string, script *redis.Script, l Lease, riders []Rider, args ...any) error {
	var p convoy.Party
	for _, ride := range riders {
		ride(&p)
	}
	answer := p.Add(convoy.Call{Script: script, Keys: []string{metaKey(l.Ref.Batch)}, Own: args, Alone: true})
	s.ends.Send(ctx, &p)
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
	var sum provider.USD
	for _, c := range p.Calls {
		if c.Cost < 0 {
			return 0, 0, nil, fmt.Errorf("a call to %s costs %s USD", c.Model, c.Cost)
		}
		sum += c.Cost
	}
	body, err = json.Marshal(p)
	return len(p.Calls), int64(sum), body, err
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// String names the line for errors and logs.
func (r Ref) String() string { return fmt.Sprintf("%s line %d", r.Batch, r.Line) }
