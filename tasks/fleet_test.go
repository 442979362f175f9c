package tasks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

func TestOneKeeperAtATime(t *testing.T) {
	f := NewFleet(redistest.Client(t))
	ctx := context.Background()
	lead := func(id string) int64 {
		t.Helper()
		epoch, err := f.Lead(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return epoch
	}
	first := lead("a")
	if first < 1 || lead("b") != 0 || lead("a") != first {
		t.Fatal("a must hold the lease, with one epoch, and b must not")
	}
	if err := f.Resign(ctx, "b"); err != nil || lead("a") != first {
		t.Fatal("b resigned a lease that it did not hold")
	}
	if err := f.Resign(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if second := lead("b"); second <= first {
		t.Fatalf("the epoch did not grow: %d after %d", second, first)
	}
}

// A keeper that stalls beyond its lease gets a new epoch even if nobody else
// came: what it wrote down before may be out of date.
func TestLapsedLeaseHasANewEpoch(t *testing.T) {
	rdb := redistest.Client(t)
	f := NewFleet(rdb)
	ctx := context.Background()
	first, err := f.Lead(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(ctx, keeperKey, "until", 1).Err(); err != nil {
		t.Fatal(err)
	}
	if second, err := f.Lead(ctx, "a"); err != nil || second != first+1 {
		t.Fatalf("epoch %d, %v; want %d", second, err, first+1)
	}
}

func TestHeartbeatsOfTheLivingAlone(t *testing.T) {
	rdb := redistest.Client(t)
	f := NewFleet(rdb)
	ctx := context.Background()
	for _, id := range []string{"b", "a"} {
		if _, err := f.Beat(ctx, Heartbeat{ID: id, Queues: map[string]QueueBeat{"q": {Slots: 5}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.HSet(ctx, workersKey, "dead", `1000 {"id":"dead"}`).Err(); err != nil {
		t.Fatal(err)
	}
	live, err := f.Workers(ctx)
	if err != nil || len(live) != 2 || live[0].ID != "a" || live[1].Queues["q"].Slots != 5 {
		t.Fatalf("live: %+v, %v", live, err)
	}
	if err := f.Leave(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if live, err = f.Workers(ctx); err != nil || len(live) != 1 {
		t.Fatalf("after a left: %+v, %v", live, err)
	}
}

// A worker that said nothing for a while serves nothing, but is told of for an hour.
func TestLostWorkersAreRemembered(t *testing.T) {
	rdb := redistest.Client(t)
	f := NewFleet(rdb)
	ctx := context.Background()
	if _, err := f.Beat(ctx, Heartbeat{ID: "live"}); err != nil {
		t.Fatal(err)
	}
	ago := func(id string, d time.Duration) {
		t.Helper()
		said := fmt.Sprintf(`%d {"id":%q}`, rdb.Time(ctx).Val().Add(-d).UnixMilli(), id)
		if err := rdb.HSet(ctx, workersKey, id, said).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ago("lost", 5*time.Minute)
	ago("forgotten", heartbeatKept+time.Second)
	live, err := f.Workers(ctx)
	if err != nil || len(live) != 1 || live[0].ID != "live" {
		t.Fatalf("live: %+v, %v", live, err)
	}
	all, err := f.Members(ctx)
	if err != nil || len(all) != 2 || all[0].Lost() || all[1].ID != "lost" || !all[1].Lost() || all[1].Silent < 5*time.Minute {
		t.Fatalf("%+v, %v", all, err)
	}
	if n, err := rdb.HLen(ctx, workersKey).Result(); err != nil || n != 2 {
		t.Errorf("%d are kept, %v", n, err)
	}
}

func TestWhoIsTheKeeper(t *testing.T) {
	rdb := redistest.Client(t)
	f := NewFleet(rdb)
	ctx := context.Background()
	is := func(want string) {
		t.Helper()
		l, err := f.Keeper(ctx)
		if err != nil || l.ID != want || (want == "") != l.Until.IsZero() {
			t.Fatalf("%+v, %v; want %q", l, err, want)
		}
	}
	is("")
	if _, err := f.Lead(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	is("a")
	if err := rdb.HSet(ctx, keeperKey, "until", 1).Err(); err != nil {
		t.Fatal(err)
	}
	is("")
}
