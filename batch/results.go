package batch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The bounds of what is read in one round trip: so many records and, but for a
// single one that is longer, so many bytes of them as they are kept.
const (
	resultsPage  = 256
	resultsBytes = 1 << 20
)

// Results calls yield with each record from the given offset in finishing
// order and returns the next offset, also with an error: every record before it
// was yielded. It ends where the log ends now; ErrNotFound: no such batch. A line
// that was retried stands in the log once for each of its ends; where a later end
// is known, or none, it is passed over.
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
	entries, err := r.s.log(ctx, r.d.ID, offset, resultsPage)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	lines := make([]int64, len(entries))
	for i, e := range entries {
		lines[i] = e.line
	}
	records, err := r.read(ctx, lines)
	for i, rec := range records {
		if rec == nil || rec.Generation != entries[i].generation {
			continue
		}
		rec.Place = offset + int64(i)
		if err := yield(*rec); err != nil {
			return int64(i), err
		}
	}
	return int64(len(records)), err
}

// ended is one entry of the log.
type ended struct {
	line       int64
	generation int
}

// log returns up to n entries of a batch's log from an offset on.
func (s *Redis) log(ctx context.Context, id string, offset, n int64) ([]ended, error) {
	texts, err := s.rdb.LRange(ctx, key(id, "log"), offset, offset+n-1).Result()
	if err != nil {
		return nil, err
	}
	entries := make([]ended, len(texts))
	for i, text := range texts {
		if entries[i], err = parseEnded(text); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// parseEnded reads "line" or, of a line that was retried, "line.generation".
func parseEnded(text string) (e ended, err error) {
	line, generation, retried := strings.Cut(text, ".")
	e.line, err = strconv.ParseInt(line, 10, 64)
	if err == nil && retried {
		e.generation, err = strconv.Atoi(generation)
	}
	if err != nil || e.line < 1 || e.generation < 0 {
		return ended{}, fmt.Errorf("the log's entry %q is damaged", text)
	}
	return e, nil
}

// Record returns the record of one line; ErrNotFound: it has none.
func (s *Redis) Record(ctx context.Context, id string, line int64) (Record, error) {
	d, err := s.description(ctx, id)
	if err == nil {
		r := recordReader{s: s, d: d}
		var records []*Record
		if records, err = r.read(ctx, []int64{line}); err == nil {
			if records[0] != nil {
				return *records[0], nil
			}
			err = ErrNotFound
		}
	}
	return Record{}, fmt.Errorf("read result of %s: %w", Ref{Batch: id, Line: line}, err)
}

// PlaceOf returns where the end of a line's generation stands among the ends of the
// batch's lines; -1: not from the given place on.
func (s *Redis) PlaceOf(ctx context.Context, id string, line int64, generation int, from int64) (int64, error) {
	for {
		entries, err := s.log(ctx, id, from, orderPage)
		if err != nil {
			return 0, fmt.Errorf("read results of %s: %w", id, err)
		}
		if i := slices.Index(entries, ended{line, generation}); i >= 0 {
			return from + int64(i), nil
		}
		if len(entries) == 0 {
			return -1, nil
		}
		from += int64(len(entries))
	}
}

// read returns the records of the first of the lines, as many as fit into a page
// and at least one; nil for a line without one. With an error, what it returns
// comes before that.
func (r *recordReader) read(ctx context.Context, lines []int64) ([]*Record, error) {
	numbers := make([]string, len(lines))
	for i, l := range lines {
		numbers[i] = strconv.FormatInt(l, 10)
	}
	numbers, err := r.bound(ctx, numbers)
	if err != nil {
		return nil, err
	}
	values, err := r.s.rdb.HMGet(ctx, key(r.d.ID, "rec"), numbers...).Result()
	if err != nil {
		return nil, err
	}
	records := make([]*Record, 0, len(values))
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			records = append(records, nil)
			continue
		}
		rec, err := r.record(ctx, lines[i], text)
		if err != nil {
			return records, fmt.Errorf("line %d: %w", lines[i], err)
		}
		records = append(records, &rec)
	}
	return records, nil
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

func (r *recordReader) record(ctx context.Context, line int64, text string) (Record, error) {
	rec, err := parseRecord([]byte(text))
	if err != nil {
		return Record{}, err
	}
	out := Record{Line: line, Generation: rec.generation, Outcome: rec.outcome, Place: -1}
	if rec.code == "" {
		out.JSON, err = r.s.unpack(ctx, r.d.ID, r.d.Digest, rec.body)
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
