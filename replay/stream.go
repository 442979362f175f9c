package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
)

// streamKey is the stream of all workers' records.
const streamKey = "nightshift:{calls}:log"

// field is one value of a record in the stream. Every entry has all of them in the
// same order, so that Redis keeps their names once and not in each entry.
type field struct {
	name string
	get  func(r *Record) any
	set  func(r *Record, s string) error
}

func textField[T ~string](name string, at func(*Record) *T) field {
	return field{
		name,
		func(r *Record) any { return string(*at(r)) },
		func(r *Record, s string) error { *at(r) = T(s); return nil },
	}
}

func numberField[T ~int | ~int64](name string, at func(*Record) *T) field {
	return field{name, func(r *Record) any { return int64(*at(r)) }, func(r *Record, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		*at(r) = T(n)
		return err
	}}
}

// timeField is a time in ms; 0: none.
func timeField(name string, at func(*Record) *time.Time) field {
	return field{name, func(r *Record) any {
		if at(r).IsZero() {
			return int64(0)
		}
		return at(r).UnixMilli()
	}, func(r *Record, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if n != 0 {
			*at(r) = time.UnixMilli(n).UTC()
		}
		return err
	}}
}

func flagField(name string, at func(*Record) *bool) field {
	return field{name, func(r *Record) any { return *at(r) }, func(r *Record, s string) (err error) {
		*at(r), err = strconv.ParseBool(s)
		return err
	}}
}

// fields are those of an entry. A later version adds at the end.
var fields = []field{
	numberField("v", func(r *Record) *int { return &r.V }),
	textField("type", func(r *Record) *Type { return &r.Type }),
	timeField("time", func(r *Record) *time.Time { return &r.Time }),
	textField("worker", func(r *Record) *string { return &r.Worker }),
	numberField("seq", func(r *Record) *int64 { return &r.Seq }),
	textField("queue", func(r *Record) *string { return &r.Queue }),
	textField("producer", func(r *Record) *string { return &r.Producer }),
	textField("batch", func(r *Record) *string { return &r.Batch }),
	numberField("line", func(r *Record) *int64 { return &r.Line }),
	numberField("generation", func(r *Record) *int { return &r.Generation }),
	textField("ladder", func(r *Record) *string { return &r.Ladder }),
	numberField("rung", func(r *Record) *int { return &r.Rung }),
	textField("model", func(r *Record) *string { return &r.Model }),
	textField("provider", func(r *Record) *string { return &r.Provider }),
	textField("region", func(r *Record) *string { return &r.Region }),
	textField("purpose", func(r *Record) *ladder.Purpose { return &r.Purpose }),
	textField("kind", func(r *Record) *provider.Kind { return &r.Kind }),
	numberField("status", func(r *Record) *int { return &r.Status }),
	numberField("latency_ms", func(r *Record) *int64 { return &r.LatencyMS }),
	numberField("first_token_ms", func(r *Record) *int64 { return &r.FirstTokenMS }),
	numberField("input_tokens", func(r *Record) *int64 { return &r.Input }),
	numberField("cached_tokens", func(r *Record) *int64 { return &r.Cached }),
	numberField("output_tokens", func(r *Record) *int64 { return &r.Output }),
	numberField("cost_nano_usd", func(r *Record) *provider.USD { return &r.Cost }),
	textField("breaker", func(r *Record) *breaker.State { return &r.Breaker }),
	flagField("probe", func(r *Record) *bool { return &r.Probe }),
	textField("scope", func(r *Record) *breaker.Scope { return &r.Scope }),
	numberField("retry_after_ms", func(r *Record) *int64 { return &r.RetryAfterMS }),
	textField("reason", func(r *Record) *string { return &r.Reason }),
	timeField("until", func(r *Record) *time.Time { return &r.Until }),
	numberField("dropped", func(r *Record) *int64 { return &r.Dropped }),
}

// byName finds a field.
var byName = func() map[string]field {
	all := map[string]field{}
	for _, f := range fields {
		all[f.name] = f
	}
	return all
}()

// values are the entry of a record.
func values(r *Record) []any {
	all := make([]any, 0, 2*len(fields))
	for _, f := range fields {
		all = append(all, f.name, f.get(r))
	}
	return all
}

// fromEntry is the record of an entry. Names that a later program added are left out.
func fromEntry(m redis.XMessage) (Record, error) {
	var r Record
	for name, v := range m.Values {
		f, known := byName[name]
		text, isText := v.(string)
		if !known || !isText {
			continue
		}
		if err := f.set(&r, text); err != nil {
			return r, fmt.Errorf("read record %s of the call log: %s: %w", m.ID, name, err)
		}
	}
	if r.V == 0 {
		return r, fmt.Errorf("read record %s of the call log: it has no version", m.ID)
	}
	return r, nil
}

const (
	exportPage   = 1000            // records in one read
	exportBlocks = 2 * time.Second // how long one read of Follow waits
)

// Exporting says what to export.
type Exporting struct {
	// Since leaves out what was written before; zero: nothing.
	Since time.Time
	// Follow goes on with what is written from now on, until the context ends.
	Follow bool
	// Each is given the records in the order in which they were written.
	Each func(Record) error
	// Idle is called when all that is there was given, before it waits for more; nil: nothing is.
	Idle func() error
	// Damaged is told of entries that cannot be read; they are left out.
	Damaged func(error)
}

// Export reads the stream. A log that nobody has written to is empty.
func Export(ctx context.Context, rdb redis.UniversalClient, e Exporting) error {
	last := "0-0"
	if ms := e.Since.UnixMilli(); !e.Since.IsZero() && ms > 0 {
		last = strconv.FormatInt(ms-1, 10) + "-18446744073709551615" // the last ID before
	}
	for {
		page, err := rdb.XRangeN(ctx, streamKey, "("+last, "+", exportPage).Result()
		if err != nil {
			return fmt.Errorf("read call log: %w", err)
		}
		if err := e.page(page, &last); err != nil {
			return err
		}
		if len(page) < exportPage {
			break
		}
	}
	for e.Follow {
		if e.Idle != nil {
			if err := e.Idle(); err != nil {
				return err
			}
		}
		page, err := follow(ctx, rdb, last)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow call log: %w", err)
		}
		if err := e.page(page, &last); err != nil {
			return err
		}
	}
	return nil
}

// follow waits for entries after the last.
func follow(ctx context.Context, rdb redis.UniversalClient, last string) ([]redis.XMessage, error) {
	all, err := rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{streamKey, last}, Count: exportPage, Block: exportBlocks}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0].Messages, nil
}

func (e *Exporting) page(page []redis.XMessage, last *string) error {
	for _, m := range page {
		*last = m.ID
		r, err := fromEntry(m)
		if err != nil {
			if e.Damaged != nil {
				e.Damaged(err)
			}
			continue
		}
		if err := e.Each(r); err != nil {
			return err
		}
	}
	return nil
}
