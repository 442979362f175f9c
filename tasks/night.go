package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/provider"
)

const (
	// minutesKey is a hash: minute since 1970, modulo those of a day -> the minute
	// and what ended and was paid in it. So it never has more than a day.
	minutesKey = "nightshift:{fleet}:minutes"
	// talliedKey is a hash: batch -> its tally when it was last looked at; "-" says
	// that this was done before.
	talliedKey = "nightshift:{fleet}:tallied"
	// minuteKey and a minute is who writes that minute.
	minuteKey = "nightshift:{fleet}:minute:"

	minutesKept = 24 * 60
)

// Tallies tells what batches have come to; package batch does.
type Tallies interface {
	Tallies(ctx context.Context) (map[string]batch.Tally, error)
}

// Night keeps what the whole fleet finished and paid by the minute, for a day: the
// keeper compares the counters of the batches once a minute. A line costs nothing
// for it. It is safe for concurrent use.
type Night struct {
	rdb     redis.UniversalClient
	tallies Tallies
}

// NewNight returns the night of a Redis; the client stays the caller's.
func NewNight(rdb redis.UniversalClient, t Tallies) *Night { return &Night{rdb, t} }

// Minute is what was finished and paid in one minute.
type Minute struct {
	At time.Time // its beginning
	batch.Tally
}

// Write adds the minute before now, once in the whole fleet. What happened while
// nobody wrote is added to it.
func (n *Night) Write(ctx context.Context, now time.Time) error {
	minute := now.Unix() / 60
	err := n.rdb.SetArgs(ctx, fmt.Sprint(minuteKey, minute), 1, redis.SetArgs{Mode: "NX", TTL: 2 * time.Minute}).Err()
	if errors.Is(err, redis.Nil) {
		return nil // another keeper does
	}
	if err == nil {
		err = n.write(ctx, minute-1)
	}
	if err != nil {
		return fmt.Errorf("write the minute: %w", err)
	}
	return nil
}

func (n *Night) write(ctx context.Context, minute int64) error {
	before, err := n.rdb.HGetAll(ctx, talliedKey).Result()
	if err != nil {
		return err
	}
	now, err := n.tallies.Tallies(ctx)
	if err != nil {
		return err
	}
	_, began := before["-"]
	delete(before, "-")
	var sum batch.Tally
	after := map[string]any{"-": ""}
	for id, t := range now {
		var was batch.Tally
		text, known := before[id]
		if known {
			was = readTally(text)
		}
		if !known || was != t {
			after[id] = writeTally(t)
		}
		if began {
			sum = grown(sum, was, t)
		}
		delete(before, id)
	}
	gone := make([]string, 0, len(before))
	for id := range before {
		gone = append(gone, id)
	}
	_, err = n.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if sum != (batch.Tally{}) {
			p.HSet(ctx, minutesKey, fmt.Sprint(minute%minutesKept), fmt.Sprint(minute, " ", writeTally(sum)))
		}
		p.HSet(ctx, talliedKey, after)
		if len(gone) > 0 {
			p.HDel(ctx, talliedKey, gone...)
		}
		return nil
	})
	return err
}

// grown adds to a sum by how much a tally grew.
func grown(sum, was, is batch.Tally) batch.Tally {
	sum.Ended += max(0, is.Ended-was.Ended)
	sum.Calls += max(0, is.Calls-was.Calls)
	sum.Cost += max(0, is.Cost-was.Cost)
	sum.Wasted += max(0, is.Wasted-was.Wasted)
	return sum
}

func writeTally(t batch.Tally) string {
	return fmt.Sprint(t.Ended, " ", t.Calls, " ", int64(t.Cost), " ", int64(t.Wasted))
}

// readTally reads what writeTally wrote; what is damaged counts as nothing.
func readTally(text string) (t batch.Tally) {
	var cost, wasted int64
	_, _ = fmt.Sscan(text, &t.Ended, &t.Calls, &cost, &wasted)
	t.Cost, t.Wasted = provider.USD(cost), provider.USD(wasted)
	return t
}

// note writes the minute that has just ended, once the keeper is in the next.
func (k *Keeper) note(ctx context.Context, now time.Time) error {
	minute := now.Unix() / 60
	if k.night == nil || minute == k.noted {
		return nil
	}
	k.noted = minute
	return k.night.Write(ctx, now)
}

// Minutes returns the minutes since a time in which something ended or was paid,
// the oldest first; at most those of a day.
func (n *Night) Minutes(ctx context.Context, since time.Time) ([]Minute, error) {
	all, err := n.rdb.HVals(ctx, minutesKey).Result()
	if err != nil {
		return nil, fmt.Errorf("read the minutes: %w", err)
	}
	var minutes []Minute
	for _, text := range all {
		var minute, ended, calls, cost, wasted int64
		if _, err := fmt.Sscan(text, &minute, &ended, &calls, &cost, &wasted); err != nil {
			continue // one damaged minute must not hide the others
		}
		at := time.Unix(minute*60, 0)
		if !at.Before(since) {
			minutes = append(minutes, Minute{at, batch.Tally{Ended: ended, Calls: calls, Cost: provider.USD(cost), Wasted: provider.USD(wasted)}})
		}
	}
	slices.SortFunc(minutes, func(a, b Minute) int { return a.At.Compare(b.At) })
	return minutes, nil
}
