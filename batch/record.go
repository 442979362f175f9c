package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/provider"
)

// letters are the outcomes as records hold them.
var letters = map[Outcome]string{Succeeded: "s", Failed: "f", Expired: "x", Cancelled: "c"}

func letterOf(o Outcome) (string, error) {
	l, ok := letters[o]
	if !ok {
		return "", fmt.Errorf("%q is not an outcome", o)
	}
	return l, nil
}

// stored is a record as the scripts write it: a header and a body. With a code
// the keeper or a begin ended the line, and the body is its progress or empty;
// else the body is the packed output line.
type stored struct {
	outcome    Outcome
	generation int
	finished   time.Time
	code       string
	body       []byte
}

var errRecord = errors.New("the record is damaged")

func parseRecord(b []byte) (stored, error) {
	head, body, ok := bytes.Cut(b, []byte{'\n'})
	f := strings.Fields(string(head)) // outcome generation finished token code
	if !ok || len(f) != 5 {
		return stored{}, errRecord
	}
	r := stored{body: body}
	for o, l := range letters {
		if l == f[0] {
			r.outcome = o
		}
	}
	var err1, err2 error
	var finished int64
	r.generation, err1 = strconv.Atoi(f[1])
	finished, err2 = strconv.ParseInt(f[2], 10, 64)
	if r.outcome == "" || err1 != nil || err2 != nil {
		return stored{}, errRecord
	}
	r.finished = fromMS(finished)
	if f[4] != "-" {
		r.code = f[4]
	}
	return r, nil
}

// messages of the ends that no attempt wrote.
var messages = map[string]string{
	CodeExpired:         "the deadline of the batch passed before the line was answered",
	CodeCancelled:       "the batch was cancelled before the line was answered",
	CodeBudgetExhausted: "the budget of the batch was spent before the line was answered",
	CodeLost:            "five attempts of this line ended without a word: their workers were killed or lost",
}

// expand makes the result of a line that no attempt ended.
func (r stored) expand(d Description, l Line) (Result, error) {
	var p Progress
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &p); err != nil {
			return Result{}, fmt.Errorf("read progress: %w", err)
		}
	}
	var cost provider.USD
	var usage provider.Usage
	for _, c := range p.Calls {
		cost += c.Cost
		usage = usage.Plus(c.Usage)
	}
	return Result{
		ID:       fixedResultID(Ref{d.ID, l.Number, r.generation}),
		CustomID: l.CustomID,
		Error:    &ResultError{Code: r.code, Message: messages[r.code]},
		Nightshift: NightshiftInfo{
			Line: l.Number, Attempts: p.Attempts(), Deferrals: p.Deferrals, Usage: usage, CostUSD: cost,
			Metadata: l.Metadata, Request: l.Digest, Rehearsal: d.Rehearsal, FinishedAt: r.finished,
		},
	}, nil
}

// fixedResultID is the same whenever the record is read.
func fixedResultID(ref Ref) string {
	sum := sha256.Sum256([]byte(ref.Batch + " " + strconv.FormatInt(ref.Line, 10) + " " + strconv.Itoa(ref.Generation)))
	return resultIDPrefix + hex.EncodeToString(sum[:12])
}

// The bounds of what is read in one round trip: so many records and, but for a
// single one that is longer, so many bytes of them as they are kept.
const (
	resultsPage  = 256
	resultsBytes = 1 << 20
)

// Results calls yield with each record from the given offset in finishing
// order and returns the next offset, also with an error: every record before it
// was yielded. It ends where the log ends now; ErrNotFound: no such batch.
func (s *Redis) Results(ctx context.Context, id string, offset int64, yield func(Record) error) (next int64, err error) {
	d, err := s.description(ctx, id)
	if err != nil {
		return offset, fmt.Errorf("read results of %s: %w", id, err)
	}
	reader := recordReader{s: s, d: d}
	for {
		n, err := reader.page(ctx, offset, yield)
		offset += n
		if err != nil {
			return offset, fmt.Errorf("read results of %s: %w", id, err)
		}
		if n == 0 {
			return offset, nil
		}
	}
}

// recordReader reads records and remembers the chunk of the last expanded one.
type recordReader struct {
	s     *Redis
	d     Description
	lines []Line
}

// page yields up to a page of records and returns how many log entries are
// done; none at the log's end.
func (r *recordReader) page(ctx context.Context, offset int64, yield func(Record) error) (int64, error) {
	numbers, err := r.s.rdb.LRange(ctx, key(r.d.ID, "log"), offset, offset+resultsPage-1).Result()
	if err != nil || len(numbers) == 0 {
		return 0, err
	}
	if numbers, err = r.bound(ctx, numbers); err != nil {
		return 0, err
	}
	values, err := r.s.rdb.HMGet(ctx, key(r.d.ID, "rec"), numbers...).Result()
	if err != nil {
		return 0, err
	}
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue // the record was taken back
		}
		rec, err := r.record(ctx, numbers[i], text)
		if err != nil {
			return int64(i), fmt.Errorf("line %s: %w", numbers[i], err)
		}
		if err := yield(rec); err != nil {
			return int64(i), err
		}
	}
	return int64(len(numbers)), nil
}

// bound returns the first of the lines whose records fit into a page, at least one.
func (r *recordReader) bound(ctx context.Context, numbers []string) ([]string, error) {
	sizes := make([]*redis.IntCmd, len(numbers))
	if _, err := r.s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range numbers {
			sizes[i] = p.HStrLen(ctx, key(r.d.ID, "rec"), n)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var sum int64
	for i, size := range sizes {
		if sum += size.Val(); i > 0 && sum > resultsBytes {
			return numbers[:i], nil
		}
	}
	return numbers, nil
}

func (r *recordReader) record(ctx context.Context, number, text string) (Record, error) {
	line, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return Record{}, errRecord
	}
	rec, err := parseRecord([]byte(text))
	if err != nil {
		return Record{}, err
	}
	out := Record{Line: line, Outcome: rec.outcome}
	if rec.code == "" {
		out.JSON, err = r.s.packer.Unpack(rec.body)
		return out, err
	}
	l, err := r.request(ctx, line)
	if err != nil {
		return Record{}, err
	}
	res, err := rec.expand(r.d, l)
	if err != nil {
		return Record{}, err
	}
	out.JSON, err = res.Encode()
	return out, err
}

func (r *recordReader) request(ctx context.Context, line int64) (Line, error) {
	if l, err := lineOf(r.lines, line); err == nil {
		return l, nil
	}
	lines, err := r.s.chunkAt(ctx, r.d, line)
	if err != nil {
		return Line{}, err
	}
	r.lines = lines
	return lineOf(lines, line)
}
