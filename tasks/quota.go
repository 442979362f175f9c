package tasks

import (
	"context"
	"fmt"
	"math"
	"time"

	"nightshift/batch"
	"nightshift/limit"
)

// Guards tells the keeper what the hourly guards leave; *limit.GuardRedis does.
type Guards interface {
	// Room answers in one round trip.
	Room(ctx context.Context, producers, batches []string) (limit.Rooms, error)
}

// guardEvery is how often the guards are asked.
const guardEvery = 300 * time.Millisecond

// quota is what the guards leave, as of the last question and less what was let
// go since. A nil one bounds nothing.
type quota struct {
	rooms limit.Rooms
	// calls and all are for lines of the backlog: what no line under way is about
	// to use, and none that waits has a place for.
	calls batch.Calls
	all   int
}

// unbounded is the number of calls that a guard without a limit leaves.
const unbounded = math.MaxInt

// newQuota counts the lines under way as calls to be made, also those that made
// theirs already: near a guard the keeper rather waits for their end.
func newQuota(rooms limit.Rooms, backlogs []batch.Backlog) *quota {
	q := &quota{rooms: rooms, all: unbounded, calls: batch.Calls{Producers: map[string]int{}, Own: map[string]int{}}}
	mine, all := map[string]int{}, 0
	for _, b := range backlogs {
		n := underWay(b)
		all += n
		if own := int(rooms.Batches[b.ID].Allowance); own > 0 {
			q.calls.Own[b.ID] = max(0, own-n)
			n = max(0, n-own)
		}
		mine[b.Producer] += n
	}
	for producer, r := range rooms.Producers {
		if !r.Unlimited {
			q.calls.Producers[producer] = max(0, int(r.Calls)-mine[producer])
		}
	}
	if !rooms.All.Unlimited {
		q.all = max(0, int(rooms.All.Calls)-all)
	}
	return q
}

// underWay counts the released lines of a batch that do not wait.
func underWay(b batch.Backlog) int {
	n := int(b.Out)
	for _, waiting := range b.Deferred {
		n -= waiting
	}
	return max(n, 0)
}

// bound bounds what may be released.
func (q *quota) bound(p *batch.Picking) {
	if q != nil {
		p.Room, p.Calls = min(p.Room, q.all), q.calls
	}
}

// released takes off what was released of a batch.
func (q *quota) released(b batch.Backlog, n int) {
	if q == nil {
		return
	}
	own := min(n, q.calls.Own[b.ID])
	if own > 0 {
		q.calls.Own[b.ID] -= own
	}
	if left, bounded := q.calls.Producers[b.Producer]; bounded {
		q.calls.Producers[b.Producer] = max(0, left-n+own)
	}
	if q.all != unbounded {
		q.all = max(0, q.all-n)
	}
}

// spent says whether no line of the batch may be called again.
func (q *quota) spent(b batch.Backlog) bool { return q != nil && q.rooms.Batches[b.ID].Spent }

// ready is how many lines that wait for this guard could be let in now.
func ready(r limit.Room) int {
	if r.Unlimited {
		return unbounded
	}
	return int(r.Ready + max(r.Calls, 0))
}

// askGuards asks the guards anew when it is time. Until they have answered once
// nothing is bounded: attempts are, and Redis answers nothing else either.
func (k *Keeper) askGuards(ctx context.Context, backlogs []batch.Backlog) error {
	if k.guards == nil || len(backlogs) == 0 || !due(&k.asked, k.now(), guardEvery) {
		return nil
	}
	var batches, producers []string
	seen := map[string]bool{}
	for _, b := range backlogs {
		batches = append(batches, b.ID)
		if !seen[b.Producer] {
			seen[b.Producer] = true
			producers = append(producers, b.Producer)
		}
	}
	rooms, err := k.guards.Room(ctx, producers, batches)
	if err != nil {
		return fmt.Errorf("ask guards: %w", err)
	}
	k.quota = newQuota(rooms, backlogs)
	return nil
}
