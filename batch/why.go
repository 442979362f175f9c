package batch

import (
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

// Stage is where a line is on its way.
type Stage string

// The stages of a line.
const (
	StageBacklog  Stage = "backlog"  // not released yet
	StageReleased Stage = "released" // a task of the queue, which no worker has begun or which is to be begun anew
	StageRunning  Stage = "running"  // a worker holds it
	StageWaiting  Stage = "waiting"  // a task of the queue that sleeps
	StageFinished Stage = "finished"
)

// Story is what became of one line so far: the JSON of `enqueue why`. It has
// neither prompt nor answer.
type Story struct {
	Batch      string `json:"batch"`
	BatchState State  `json:"batch_state"`
	Line       int64  `json:"line"`
	CustomID   string `json:"custom_id"`
	Generation int    `json:"generation"` // how often it was retried
	Stage      Stage  `json:"stage"`
	// Place is how many lines of the batch come before it in the backlog, and
	// itself; null: it is not there.
	Place      *int64       `json:"place"`
	ReleasedAt *time.Time   `json:"released_at"`
	LeaseUntil *time.Time   `json:"lease_until"` // of who holds it, or held it last and said nothing since
	WaitingFor *WaitingFor  `json:"waiting_for"`
	Outcome    Outcome      `json:"outcome,omitempty"`
	StatusCode int          `json:"status_code,omitempty"` // of the provider's answer
	Error      *ResultError `json:"error"`
	FinishedAt *time.Time   `json:"finished_at"`
	// Attempts are its calls, and between them the rungs that the last attempt passed over.
	Attempts  []provider.Call `json:"attempts"`
	Failures  int             `json:"failures"` // of attempts, each one of the queue's retries; 0 once it is finished
	Deferrals int             `json:"deferrals"`
	Crashes   int             `json:"crashes"` // attempts that ended without a word; 0 once it is finished
	CostUSD   provider.USD    `json:"cost_usd"`
	// Model is who answered it.
	Model    string `json:"model,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`
	Cached   bool   `json:"cached,omitempty"`
}

// NoLineError is ErrNotFound for a line of a batch that exists.
type NoLineError struct {
	Batch       string
	First, Last int64 // the numbers of its lines; 0: it has none
	Total       int64
}

// Error says which lines there are.
func (e *NoLineError) Error() string {
	return fmt.Sprintf("batch %s has no such line: its %d lines are numbered %d to %d", e.Batch, e.Total, e.First, e.Last)
}

// Is makes the error match ErrNotFound.
func (e *NoLineError) Is(target error) bool { return target == ErrNotFound }

// lineParts are the replies that make a story.
type lineParts struct {
	clock                              *redis.TimeCmd
	meta                               *redis.MapStringStringCmd
	place                              *redis.StringSliceCmd
	out, lease, wait, prog, crash, rec *redis.StringCmd
}

// Why returns what became of one line; a *NoLineError: the batch has not that one;
// ErrNotFound: no such batch.
func (s *Redis) Why(ctx context.Context, id string, line int64) (Story, error) {
	story, err := s.why(ctx, id, line)
	return story, wrap("read "+Ref{Batch: id, Line: line}.String(), err)
}

func (s *Redis) why(ctx context.Context, id string, line int64) (Story, error) {
	p, err := s.lineParts(ctx, id, strconv.FormatInt(line, 10))
	if err != nil {
		return Story{}, err
	}
	m := state(p.meta.Val())
	if len(m) == 0 {
		return Story{}, ErrNotFound
	}
	d, err := m.description(id)
	if err != nil {
		return Story{}, err
	}
	at, known, err := findRun(p.place.Val(), line)
	if err != nil {
		return Story{}, err
	}
	if !known && p.rec.Val() == "" {
		return Story{}, s.noLine(ctx, d)
	}
	story := Story{Batch: id, Line: line, BatchState: stateOf(m, 0, 1), Attempts: []provider.Call{}}
	if known {
		lines, err := s.chunk(ctx, chunkID{id, d.Digest, at.chunk})
		if err != nil {
			return Story{}, err
		}
		l, err := lineOf(lines, line)
		if err != nil {
			return Story{}, err
		}
		story.CustomID = l.CustomID
	}
	switch {
	case p.rec.Val() != "":
		return story, s.finishedStory(ctx, &story)
	case p.out.Val() != "":
		return story, story.underWay(p, s.orTest(p.clock.Val()))
	}
	return story, s.inBacklog(ctx, &story, m, at)
}

// lineParts reads everything that is kept of a line at one moment.
func (s *Redis) lineParts(ctx context.Context, id, line string) (p lineParts, err error) {
	_, err = s.rdb.TxPipelined(ctx, func(q redis.Pipeliner) error {
		p.clock = q.Time(ctx)
		p.meta = q.HGetAll(ctx, metaKey(id))
		p.place = q.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key(id, "index"), Start: line, Stop: "-inf", ByScore: true, Rev: true, Count: 1})
		for name, cmd := range map[string]**redis.StringCmd{"out": &p.out, "lease": &p.lease, "wait": &p.wait, "prog": &p.prog, "crash": &p.crash, "rec": &p.rec} {
			*cmd = q.HGet(ctx, key(id, name), line)
		}
		return nil
	})
	if isNil(err) {
		err = nil // not all of it is kept at a time
	}
	return p, err
}

// lineAt is where a line stands in the batch's index.
type lineAt struct {
	chunk string
	class int
}

// findRun finds a line in the entry of the index that would have it.
func findRun(entries []string, line int64) (at lineAt, known bool, err error) {
	if len(entries) == 0 {
		return at, false, nil
	}
	chunk, runs, err := parseIndex(entries[0])
	i := slices.IndexFunc(runs, func(r run) bool { return line >= r.first && line < r.first+r.count })
	if err != nil || i < 0 {
		return at, false, err
	}
	return lineAt{chunk, runs[i].class}, true, nil
}

// noLine says which lines a batch has.
func (s *Redis) noLine(ctx context.Context, d Description) error {
	missing := &NoLineError{Batch: d.ID, Total: d.Total}
	for _, end := range []int64{0, -1} {
		entries, err := s.rdb.ZRange(ctx, key(d.ID, "index"), end, end).Result()
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return missing
		}
		_, runs, err := parseIndex(entries[0])
		if err != nil {
			return err
		}
		if end == 0 {
			missing.First = runs[0].first
		}
		last := runs[len(runs)-1]
		missing.Last = last.first + last.count - 1
	}
	return missing
}

// finishedStory adds what the record of a line says.
func (s *Redis) finishedStory(ctx context.Context, story *Story) error {
	rec, err := s.Record(ctx, story.Batch, story.Line)
	if err != nil {
		return err
	}
	var r Result
	if err := json.Unmarshal(rec.JSON, &r); err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	n := r.Nightshift
	story.Stage, story.Outcome, story.Generation, story.CustomID = StageFinished, rec.Outcome, rec.Generation, r.CustomID
	story.Error, story.FinishedAt = r.Error, timePtr(n.FinishedAt)
	story.Attempts, story.Deferrals, story.CostUSD = n.Attempts, n.Deferrals, n.CostUSD
	story.Model, story.Degraded, story.Cached = n.Model, n.Degraded, n.Cached
	if r.Response != nil {
		story.StatusCode = r.Response.StatusCode
	}
	return nil
}

// underWay adds what is kept of a line that is released.
func (story *Story) underWay(p lineParts, now time.Time) error {
	e, err := parseEntry(story.Batch, strconv.FormatInt(story.Line, 10), p.out.Val())
	if err != nil {
		return err
	}
	story.Stage, story.Generation, story.ReleasedAt = StageReleased, e.Ref.Generation, timePtr(e.Since)
	if _, body, ok := strings.Cut(p.prog.Val(), "\n"); ok {
		var progress Progress
		if err := json.Unmarshal([]byte(body), &progress); err != nil {
			return fmt.Errorf("read progress: %w", err)
		}
		story.Attempts, story.Failures, story.Deferrals = progress.Attempts(), progress.Failures, progress.Deferrals
		for _, c := range progress.Calls {
			story.CostUSD += c.Cost
		}
	}
	story.Crashes, _ = strconv.Atoi(p.crash.Val()) // none: 0
	expires, _, _ := strings.Cut(p.lease.Val(), " ")
	until, _ := strconv.ParseInt(expires, 10, 64) // none, or given back: 0
	if story.LeaseUntil = timePtr(fromMS(until)); until > now.UnixMilli() {
		story.Stage = StageRunning
		return nil
	}
	if p.wait.Val() == "" {
		return nil
	}
	var w Wait
	if err := json.Unmarshal([]byte(p.wait.Val()), &w); err != nil {
		return fmt.Errorf("read what it waits for: %w", err)
	}
	story.Stage, story.WaitingFor = StageWaiting, &WaitingFor{Model: w.Model, Reason: w.Reason, Until: w.Until}
	return nil
}

// inBacklog counts the lines that come before one that is not released: those that
// were retried come first.
func (s *Redis) inBacklog(ctx context.Context, story *Story, m state, at lineAt) error {
	story.Stage = StageBacklog
	line := strconv.FormatInt(story.Line, 10)
	classes := strings.Fields(m["classes"])
	retried, before := make([]*redis.IntCmd, len(classes)), make([]*redis.IntCmd, len(classes))
	var mine *redis.StringSliceCmd
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		again := key(story.Batch, "again:")
		mine = p.ZRangeByScore(ctx, again+strconv.Itoa(at.class), &redis.ZRangeBy{Min: line, Max: line})
		for i, c := range classes {
			retried[i] = p.ZCard(ctx, again+c)
			before[i] = p.ZCount(ctx, again+c, "-inf", "("+line)
		}
		return nil
	}); err != nil {
		return err
	}
	count, place := retried, int64(1)
	if entries := mine.Val(); len(entries) > 0 {
		count = before
		f := strings.Fields(entries[0]) // line generation chunk
		if len(f) != 3 {
			return errors.New("its entry among those that were retried is damaged")
		}
		story.Generation, _ = strconv.Atoi(f[1])
	} else {
		n, err := s.unreleased(ctx, story.Batch, m, story.Line)
		if err != nil {
			return err
		}
		place += n
	}
	for _, n := range count {
		place += n.Val()
	}
	story.Place = &place
	return nil
}

// unreleased counts the lines before one that never were released.
func (s *Redis) unreleased(ctx context.Context, id string, m state, line int64) (n int64, err error) {
	released := map[int]int64{} // the last line, by class
	from := int64(-1)           // the first chunk of any class that is not released
	for class := range strings.FieldsSeq(m["classes"]) {
		var c int
		var chunk, last int64
		cursor := m["cur:"+class]
		if cursor == "" {
			cursor = "0 0"
		}
		if _, err := fmt.Sscan(class+" "+cursor, &c, &chunk, &last); err != nil {
			return 0, fmt.Errorf("read the cursor of class %s: %w", class, err)
		}
		released[c] = last
		if from < 0 || chunk < from {
			from = chunk
		}
	}
	for ; ; from += orderPage {
		entries, err := s.rdb.ZRange(ctx, key(id, "index"), max(from, 0), max(from, 0)+orderPage-1).Result()
		if err != nil || len(entries) == 0 {
			return n, err
		}
		for _, e := range entries {
			_, runs, err := parseIndex(e)
			if err != nil {
				return 0, err
			}
			for _, r := range runs {
				if r.first >= line {
					return n, nil
				}
				n += max(0, min(r.first+r.count, line)-max(r.first, released[r.class]+1))
			}
		}
	}
}
