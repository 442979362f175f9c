package replay

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/ladder"
)

const (
	logBuffer = 8192                   // records that wait for Redis before new ones are dropped
	logBatch  = 256                    // records in one round trip
	logEvery  = 200 * time.Millisecond // the longest that a record waits for others
	logLimit  = 5 * time.Second        // for one round trip
	logPause  = time.Second            // after a round trip that failed
	logGrace  = 3 * time.Second        // for what is left at the end
)

// LogOptions is what a call log is made of.
type LogOptions struct {
	// Redis holds the stream; nil: there is none.
	Redis redis.UniversalClient
	// Keep is about how many records the stream keeps, at least.
	Keep int
	// File is appended to, and rotated; "": there is none.
	File string
	// Worker names this process in its records.
	Worker string
	Logger *slog.Logger
}

// Log takes calls and deferrals and keeps them. Its methods return at once and are
// safe for concurrent use; Run does the work.
type Log struct {
	o       LogOptions
	file    *file // nil: there is none
	events  chan Record
	dropped atomic.Int64 // ever

	// Of Run's goroutine alone.
	batch   []Record  // on their way to Redis
	seq     int64     // of the last record
	told    int64     // of dropped, in gaps
	fails   bool      // the last round trip did
	retryAt time.Time // when Redis is asked again
}

var _ ladder.Sink = (*Log)(nil)

// NewLog returns a log; nothing is kept before Run. A file that cannot be opened is
// an error here and not at the first call.
func NewLog(o LogOptions) (*Log, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{o: o, events: make(chan Record, logBuffer)}
	if o.File != "" {
		f, err := openFile(o.File)
		if err != nil {
			return nil, err
		}
		l.file = f
	}
	return l, nil
}

// Called implements ladder.Sink.
func (l *Log) Called(e ladder.CallEvent) { l.put(callRecord(&e)) }

// Postponed implements ladder.Sink.
func (l *Log) Postponed(e ladder.DeferralEvent) { l.put(deferralRecord(&e)) }

// Dropped is how many records found no room.
func (l *Log) Dropped() int64 { return l.dropped.Load() }

func (l *Log) put(r Record) {
	select {
	case l.events <- r:
	default:
		l.dropped.Add(1)
	}
}

// Run keeps what comes until ctx is done, then what is left, for which it takes at
// most 3 s. It must be called once, and what is put after it has ended is lost.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case r := <-l.events:
			if l.take(r); len(l.batch) < logBatch {
				continue
			}
		case <-tick.C:
		}
		if !time.Now().Before(l.retryAt) {
			l.flush(ctx)
		}
	}
	l.finish()
}

// take gives a record its place and the file what belongs to it. While Redis is
// away, only so many records wait for it.
func (l *Log) take(r Record) {
	l.seq++
	r.V, r.Worker, r.Seq = Version, l.o.Worker, l.seq
	r.Time, r.Until = toMS(r.Time), toMS(r.Until)
	if l.file != nil {
		if err := l.file.write(&r); err != nil {
			l.o.Logger.Warn("file of the call log lacks a record", "error", err)
		}
	}
	switch {
	case l.o.Redis == nil:
	case len(l.batch) < logBuffer:
		l.batch = append(l.batch, r)
	default:
		l.dropped.Add(1)
	}
}

// flush sends what waits, and behind it the gap where records were dropped.
func (l *Log) flush(ctx context.Context) {
	for {
		if n := l.dropped.Load(); len(l.batch) == 0 && n > l.told {
			l.take(Record{Type: TypeGap, Time: time.Now(), Dropped: n - l.told})
			l.told = n
		}
		if len(l.batch) == 0 {
			return
		}
		some := min(len(l.batch), logBatch)
		if err := l.send(ctx, l.batch[:some]); err != nil {
			l.failed(err)
			return
		}
		l.batch = append(l.batch[:0], l.batch[some:]...)
		if l.fails {
			l.fails = false
			l.o.Logger.Info("redis takes the call log again", "dropped", l.dropped.Load()-l.told)
		}
	}
}

func (l *Log) failed(err error) {
	if !l.fails && !errors.Is(err, context.Canceled) {
		l.o.Logger.Warn("redis does not take the call log; records are dropped once the buffer is full", "buffer", logBuffer, "error", err)
	}
	l.fails, l.retryAt = true, time.Now().Add(logPause)
}

// finish keeps what is left.
func (l *Log) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), logGrace)
	defer cancel()
	for len(l.events) > 0 {
		l.take(<-l.events)
	}
	if l.flush(ctx); len(l.batch) > 0 {
		l.o.Logger.Warn("the end of the call log is lost", "records", len(l.batch))
	}
	if l.file != nil {
		if err := l.file.close(); err != nil {
			l.o.Logger.Warn("close file of the call log", "error", err)
		}
	}
}

// toMS is a time as records have it.
func toMS(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}

// send adds a batch to the stream, which keeps the last records.
func (l *Log) send(ctx context.Context, batch []Record) error {
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	pipe := l.o.Redis.Pipeline()
	for i := range batch {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: streamKey, MaxLen: int64(l.o.Keep), Approx: true, Values: values(&batch[i])})
	}
	_, err := pipe.Exec(ctx)
	return err
}
