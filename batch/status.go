package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/provider"
)

// The finishing rate is counted in buckets of ten seconds over the last five
// minutes; lua/lib.lua keeps the same numbers.
const (
	rateBucket = 10 * time.Second
	rateSpan   = 5 * time.Minute
)

// state is a batch's hash of state and counters, see lua/lib.lua.
type state map[string]string

func (m state) int(field string) int64 {
	n, _ := strconv.ParseInt(m[field], 10, 64) // a missing counter is 0
	return n
}

func (m state) committed() bool { return m["committed"] != "" }
func (m state) finished() bool  { return m["finished_at"] != "" }
func (m state) cancelled() bool { return m["cancelled_at"] != "" }

// description is that of the batch id; one of another ID is damaged.
func (m state) description(id string) (Description, error) {
	var d Description
	if err := json.Unmarshal([]byte(m["d"]), &d); err != nil {
		return d, fmt.Errorf("read description: %w", err)
	}
	if d.ID != id {
		return d, fmt.Errorf("read description: it is that of %q", d.ID)
	}
	d.Total = m.int("total")
	d.Deadline = fromMS(m.int("deadline"))
	if m["priority"] != "" { // changed after the submission, as the budget below
		d.Priority = int(m.int("priority"))
	}
	if m["budget"] != "" {
		d.Budget = provider.USD(m.int("budget"))
	}
	return d, nil
}

// byClass returns the fields with a prefix by the class after it, but for zeros.
func (m state) byClass(prefix string) map[int]int64 {
	out := map[int]int64{}
	for f, v := range m {
		if c, ok := strings.CutPrefix(f, prefix); ok {
			class, err1 := strconv.Atoi(c)
			n, err2 := strconv.ParseInt(v, 10, 64)
			if err1 == nil && err2 == nil && n != 0 {
				out[class] = n
			}
		}
	}
	return out
}

// counts returns the counters with a prefix by what comes after it: by: the model
// that answered, err: the code of a line's end, why: the reason of a deferral.
func (m state) counts(prefix string) map[string]int64 {
	out := map[string]int64{}
	for f := range m {
		if what, ok := strings.CutPrefix(f, prefix); ok {
			out[what] = m.int(f)
		}
	}
	return out
}

// Answerer is a model, or ladder.TextModel for the texts, and how many lines of
// a batch it answered.
type Answerer struct {
	Model string
	Lines int64
}

// Answerers returns AnsweredBy with who answered most first.
func (st Status) Answerers() []Answerer {
	var all []Answerer
	for model, n := range st.AnsweredBy {
		all = append(all, Answerer{model, n})
	}
	slices.SortFunc(all, func(a, b Answerer) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Model, b.Model))
	})
	return all
}

func (m state) backlog(id string, out int64) (Backlog, error) {
	d, err := m.description(id)
	b := Backlog{Description: d, Cancelled: m.cancelled(), Out: out, Classes: m.byClass("w:"), Deferred: map[int]int{}}
	for _, n := range b.Classes {
		b.Waiting += n
	}
	for c, n := range m.byClass("def:") {
		b.Deferred[c] = int(n)
	}
	return b, err
}

// Status returns how far a batch is; ErrNotFound: no such batch.
func (s *Redis) Status(ctx context.Context, id string) (Status, error) {
	all, err := s.statuses(ctx, []string{id}, waitSample)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Status{}, fmt.Errorf("read status of %s: %w", id, err)
	}
	return all[0], nil
}

// List returns the status of all batches, newest first, each of which costs four
// small replies however many lines it has. Batches that cannot be read are left out; the others come
// back beside an error that joins those of all such batches.
func (s *Redis) List(ctx context.Context) ([]Status, error) {
	ids, err := s.rdb.ZRevRange(ctx, allKey, 0, -1).Result()
	if err != nil || len(ids) == 0 {
		return []Status{}, wrap("list batches", err)
	}
	all, err := s.statuses(ctx, ids, waitSampleOfMany)
	return all, wrap("list batches", err)
}

// statusParts are the replies that make one status.
type statusParts struct {
	meta, rate   *redis.MapStringStringCmd
	waits        *redis.Cmd // some of the lines that wait
	out, waiting *redis.IntCmd
}

func (p statusParts) err() error {
	return cmp.Or(p.meta.Err(), p.rate.Err(), p.waits.Err(), p.out.Err(), p.waiting.Err())
}

// statuses returns what it can read, and the joined errors of the rest. It looks
// at sample lines of each batch that wait.
func (s *Redis) statuses(ctx context.Context, ids []string, sample int) ([]Status, error) {
	parts := make([]statusParts, len(ids))
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			parts[i] = statusParts{
				meta: p.HGetAll(ctx, metaKey(id)), rate: p.HGetAll(ctx, key(id, "rate")),
				waits: p.Do(ctx, "HRANDFIELD", key(id, "wait"), sample, "WITHVALUES"),
				out:   p.HLen(ctx, key(id, "out")), waiting: p.HLen(ctx, key(id, "wait")),
			}
		}
		return nil
	})
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, err // no batch is to blame
	}
	var errs []error
	all := make([]Status, 0, len(ids))
	for i, id := range ids {
		if err := parts[i].err(); err != nil {
			errs = append(errs, wrap("batch "+id, err))
			continue
		}
		if len(parts[i].meta.Val()) == 0 {
			continue // deleted meanwhile
		}
		st, err := parts[i].status(id, now)
		if err != nil {
			errs = append(errs, wrap("batch "+id, err))
			continue
		}
		all = append(all, st)
	}
	return all, errors.Join(errs...)
}

func (p statusParts) status(id string, now time.Time) (Status, error) {
	m := state(p.meta.Val())
	d, err := m.description(id)
	if err != nil {
		return Status{}, err
	}
	st := Status{
		ID: d.ID, Queue: d.Queue, Producer: d.Producer, Total: d.Total,
		Succeeded: m.int("succeeded"), Failed: m.int("failed"),
		Expired: m.int("expired"), Cancelled: m.int("cancelled"),
		Degraded: m.int("degraded"), Cached: m.int("cached"),
		Calls: m.int("calls"), Deferrals: m.int("deferrals"),
		CostUSD: provider.USD(m.int("cost")), WastedUSD: provider.USD(m.int("wasted")),
		CreatedAt: fromMS(m.int("created")), Deadline: timePtr(d.Deadline), FinishedAt: timePtr(fromMS(m.int("finished_at"))),
		AnsweredBy: m.counts("by:"), EndedAs: m.counts("err:"), PassedOver: m.int("passed"), DeferredFor: m.counts("why:"), Forecast: d.Forecast, Allowance: d.Allowance, AllowedBy: d.AllowedBy,
		Notify: m.notified(d.Notify),
	}
	if d.Budget > 0 {
		st.BudgetUSD = &d.Budget
	}
	st.Outstanding = st.Total - st.Succeeded - st.Failed - st.Expired - st.Cancelled
	waiting := p.waiting.Val()
	if st.WaitingFor, err = waitingFor(pairsOf(p.waits.Val()), waiting); err != nil {
		return Status{}, err
	}
	st.Out, st.NotBefore, st.Priority = p.out.Val(), timePtr(d.NotBefore), d.Priority
	st.State, st.Idle = stateOf(m, st.Out, waiting), waiting == st.Out
	st.atSchedule(now)
	st.forecast(p.rate.Val(), now)
	return st, nil
}

// stateOf: a batch waits when every released line of it waits.
func stateOf(m state, out, waiting int64) State {
	switch {
	case m.finished():
		return Done
	case !m.committed():
		return Enqueuing
	case m.cancelled():
		return Cancelling
	case out > 0 && waiting == out:
		return Waiting
	}
	return Running
}

// forecast fills in the rate, the ETA and whether the batch is on time. The
// rate is that of the last five minutes (of the batch's life, if shorter); of a
// finished batch, that of its whole life.
func (st *Status) forecast(buckets map[string]string, now time.Time) {
	if st.FinishedAt != nil {
		if life := st.FinishedAt.Sub(st.CreatedAt); life > 0 {
			st.RatePerMinute = float64(st.Succeeded+st.Failed) / max(life, time.Second).Minutes()
		}
		st.judge(*st.FinishedAt)
		return
	}
	var n, first int64
	oldest := now.Add(-rateSpan).UnixMilli() / rateBucket.Milliseconds()
	for b, v := range buckets {
		bucket, _ := strconv.ParseInt(b, 10, 64)
		count, _ := strconv.ParseInt(v, 10, 64)
		if bucket < oldest {
			continue
		}
		n += count
		if first == 0 || bucket < first {
			first = bucket
		}
	}
	if n > 0 {
		span := now.Sub(time.UnixMilli(first * rateBucket.Milliseconds()))
		if life := now.Sub(st.CreatedAt); life < span {
			span = life
		}
		st.RatePerMinute = float64(n) / max(span, time.Second).Minutes()
	}
	st.ETA = st.eta(now)
	if st.ETA != nil {
		st.judge(*st.ETA)
	} else if st.Deadline != nil && now.After(*st.Deadline) {
		st.judge(now)
	}
}

// eta is when the outstanding lines are done at the rate; nil: nobody knows. In the
// first minutes that is the rate of a start, or of a burst: then it is not before
// what was foreseen of so many lines by the limits.
func (st *Status) eta(now time.Time) *time.Time {
	if st.RatePerMinute <= 0 || st.Outstanding <= 0 {
		return nil
	}
	left := float64(st.Outstanding) / st.RatePerMinute * float64(time.Minute)
	if f := st.Forecast; f != nil && now.Sub(st.CreatedAt) < rateSpan {
		left = max(left, float64(f.spanOf(st.Outstanding)))
	}
	if left >= float64(365*24*time.Hour) {
		return nil
	}
	eta := now.Add(time.Duration(left)).UTC()
	return &eta
}

// judge says whether an end at that time is on time.
func (st *Status) judge(end time.Time) {
	if st.Deadline != nil {
		ok := !end.After(*st.Deadline)
		st.OnTime = &ok
	}
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
