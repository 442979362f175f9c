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

	"github.com/redis/go-redis/v9"
)

// Backlogs returns what the keeper needs to know of every unfinished batch
// whose submission is complete, oldest first. One that cannot be read, e.g.
// because its description is damaged, holds up no other: the rest come back
// beside an error that joins those of all such batches.
func (s *Redis) Backlogs(ctx context.Context) ([]Backlog, error) { return s.Refresh(ctx, nil) }

// Refresh is Backlogs, but takes those that are known, by ID, for unchanged and
// does not read them again; only their Now is new. Unfinished batches can be many,
// and of one without a released line nothing changes but by people and the keeper.
func (s *Redis) Refresh(ctx context.Context, known map[string]Backlog) ([]Backlog, error) {
	ids, err := s.rdb.ZRange(ctx, liveKey, 0, -1).Result()
	if err != nil || len(ids) == 0 {
		return nil, wrap("read backlogs", err)
	}
	var clock *redis.TimeCmd
	metas := make([]*redis.MapStringStringCmd, len(ids))
	outs := make([]*redis.IntCmd, len(ids))
	_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		clock = p.Time(ctx)
		for i, id := range ids {
			if _, is := known[id]; !is {
				metas[i], outs[i] = p.HGetAll(ctx, metaKey(id)), p.HLen(ctx, key(id, "out"))
			}
		}
		return nil
	})
	if err := clock.Err(); err != nil { // it fails where no batch is to blame
		return nil, fmt.Errorf("read backlogs: %w", err)
	}
	now := s.orTest(clock.Val())
	var all []Backlog
	var over []any
	var ends, ended []redis.Z
	var errs []error
	for i, id := range ids {
		if b, is := known[id]; is {
			b.Now = now
			all = append(all, b)
			continue
		}
		m := state(metas[i].Val())
		err := cmp.Or(metas[i].Err(), outs[i].Err())
		switch {
		case err != nil:
		case m.finished() || len(m) == 0:
			over = append(over, id)
			end := redis.Z{Score: float64(m.int("finished_at")), Member: id}
			if m.finished() {
				ended = append(ended, end)
			}
			if m.tells() {
				ends = append(ends, end)
			}
		case m.committed():
			var b Backlog
			if b, err = m.backlog(id, outs[i].Val()); err == nil {
				b.Now = now
				all = append(all, b)
			}
		}
		errs = append(errs, wrap("read backlog of "+id, err))
	}
	if err := s.noteEnds(ctx, ended, now); err != nil {
		return all, errors.Join(append(errs, err)...) // they stay among the live ones
	}
	return all, errors.Join(append(errs, s.forget(ctx, ends, over))...)
}

// Release moves up to n lines from the cursor to out, at most room[c] of class
// c (a class that room does not name is bound by n alone), and returns them.
// epoch is the keeper's; one smaller than the last seen is ErrFenced. A line
// that was moved though the reply was lost stays in out for the sweep.
func (s *Redis) Release(ctx context.Context, id string, epoch int64, n int, room map[int]int) ([]Ref, error) {
	if n <= 0 {
		return nil, nil
	}
	args := []any{s.nowArg(), epoch, n}
	for class, r := range room {
		args = append(args, class, max(r, 0))
	}
	v, err := s.scripts.release.Run(ctx, s.rdb, []string{metaKey(id)}, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("release lines of %s: %w", id, err)
	}
	lines, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("release lines of %s: %w", id, ErrFenced)
	}
	refs := make([]Ref, len(lines)/2)
	for i := range refs {
		number, err1 := strconv.ParseInt(lines[2*i].(string), 10, 64)
		generation, err2 := strconv.Atoi(lines[2*i+1].(string))
		if err := cmp.Or(err1, err2); err != nil {
			return nil, fmt.Errorf("release lines of %s: %w", id, err)
		}
		refs[i] = Ref{id, number, generation}
	}
	return refs, nil
}

// Out returns the entries of released lines that have no record yet, by line.
func (s *Redis) Out(ctx context.Context, id string) ([]OutEntry, error) {
	var out, leases, waits *redis.MapStringStringCmd
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		out = p.HGetAll(ctx, key(id, "out"))
		leases = p.HGetAll(ctx, key(id, "lease"))
		waits = p.HGetAll(ctx, key(id, "wait"))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read released lines of %s: %w", id, err)
	}
	entries := make([]OutEntry, 0, len(out.Val()))
	for line, text := range out.Val() {
		e, err := parseEntry(id, line, text)
		if err != nil {
			return nil, err
		}
		expires, _, _ := strings.Cut(leases.Val()[line], " ")
		until, _ := strconv.ParseInt(expires, 10, 64) // no lease: 0
		e.Leased = until > now.UnixMilli()
		if w := waits.Val()[line]; w != "" {
			if err := json.Unmarshal([]byte(w), &e.Wait); err != nil {
				return nil, fmt.Errorf("read released line %s of %s: %w", line, id, err)
			}
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b OutEntry) int { return int(a.Ref.Line - b.Ref.Line) })
	return entries, nil
}

// parseEntry reads "generation class since chunk".
func parseEntry(id, line, text string) (OutEntry, error) {
	e := OutEntry{Ref: Ref{Batch: id}}
	var since, chunk int64
	_, err := fmt.Sscanf(line+" "+text, "%d %d %d %d %d", &e.Ref.Line, &e.Ref.Generation, &e.Rung, &since, &chunk)
	if err != nil {
		return e, fmt.Errorf("read released line %s of %s: %w", line, id, err)
	}
	e.Since = fromMS(since)
	return e, nil
}

// Touch restarts the age of out entries after their tasks were enqueued again.
func (s *Redis) Touch(ctx context.Context, refs []Ref) error {
	byBatch := map[string][]any{}
	for _, r := range refs {
		byBatch[r.Batch] = append(byBatch[r.Batch], r.Line, r.Generation)
	}
	var calls []scriptCall
	for id, pairs := range byBatch {
		calls = append(calls, scriptCall{id, append([]any{s.nowArg()}, pairs...)})
	}
	if len(calls) == 0 {
		return nil
	}
	_, err := s.runMany(ctx, s.scripts.touch, calls)
	return wrap("touch released lines", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
