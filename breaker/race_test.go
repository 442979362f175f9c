package breaker

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

const (
	racerAddr  = "NIGHTSHIFT_BREAKER_RACER" // Redis of the race; set: this process is a racer
	racers     = 8
	raceRounds = 20
)

func raceKey(round int) Key {
	return Key{Provider: "race", Model: "race/" + strconv.Itoa(round)}
}

// raceSettings never let a lease or a cooldown end within the test.
func raceSettings(Key) Settings {
	return Settings{Window: 1, Cooldown: time.Millisecond, MaxCooldown: time.Hour, ProbeLease: time.Hour}
}

// runRacer is one process of the race: in each round it says that it is ready,
// waits for the start, asks for the probe, and counts a win.
func runRacer(addr string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute})
	defer rdb.Close()
	store := NewRedis(rdb, raceSettings)
	for round := range raceRounds {
		rdb.LPush(ctx, fmt.Sprint("ready:", round), 1)
		if err := rdb.BRPop(ctx, time.Minute, fmt.Sprint("start:", round)).Err(); err != nil {
			fmt.Fprintln(os.Stderr, "wait for the start:", err)
			return 1
		}
		_, err := store.AdmitProbe(ctx, raceKey(round))
		switch {
		case err == nil:
			rdb.Incr(ctx, fmt.Sprint("won:", round))
		case !isHalfOpen(err):
			fmt.Fprintln(os.Stderr, "admit probe:", err)
			return 1
		}
	}
	return 0
}

func TestCase10_EightProcessesRaceForOneProbe(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	ctx := t.Context()
	prepareRace(t, NewRedis(rdb, raceSettings))
	p := newProcs(t, racerAddr, server.Addr, racers)
	for round := range raceRounds {
		for range racers {
			if err := rdb.BRPop(ctx, time.Minute, fmt.Sprint("ready:", round)).Err(); err != nil {
				t.Fatalf("round %d: not all processes are ready: %v", round, err)
			}
		}
		rdb.LPush(ctx, fmt.Sprint("start:", round), 1, 1, 1, 1, 1, 1, 1, 1)
	}
	p.wait()
	for round := range raceRounds {
		if won, _ := rdb.Get(ctx, fmt.Sprint("won:", round)).Int(); won != 1 {
			t.Errorf("round %d: %d probes, want 1", round, won)
		}
	}
}

// prepareRace opens one breaker a round and waits until they are due.
func prepareRace(t *testing.T, store *Redis) {
	for round := range raceRounds {
		tk, err := store.Admit(t.Context(), raceKey(round))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Report(t.Context(), tk, Report{Outcome: Failure}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Admit(t.Context(), raceKey(round)); err == nil {
			t.Fatal("the breaker did not open")
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		due, err := store.Due(t.Context(), "race")
		if err == nil && len(due) == raceRounds {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d breakers are due (%v)", len(due), raceRounds, err)
		}
		time.Sleep(time.Millisecond)
	}
}
