package breaker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// This file is the race for one breaker over and over, whose winners may be
// killed; race_test.go has the one for a breaker a round.

const (
	proberAddr  = "NIGHTSHIFT_BREAKER_PROBER" // Redis of the race; set: this process is a prober
	roundCool   = 100 * time.Millisecond
	roundLease  = 2 * time.Second
	roundsReal  = 25
	roundsToDie = 3
)

var roundKey = Key{Provider: "race", Model: "race/again"}

// roundSettings reopen after each failed probe, always for as long.
func roundSettings(Key) Settings {
	return Settings{Window: 1, Cooldown: roundCool, MaxCooldown: roundCool, ProbeLease: roundLease}
}

// probed is one probe as its process notes it; times are ms of the machine's
// clock, which is also that of Redis. The lease was got between the first two.
type probed struct {
	Pid, Before, After int64
	Reporting          int64 // just before the report; 0: it was never sent
}

// runProber is one process of the race: it asks for the probe every millisecond,
// notes each one that it gets, and reports a failure, or holds it for ever where
// the test says that the next winner is to die.
func runProber(addr string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	store := NewRedis(rdb, roundSettings)
	for ; rdb.Exists(ctx, "stop").Val() == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		p := probed{Pid: int64(os.Getpid()), Before: time.Now().UnixMilli()}
		t, err := store.AdmitProbe(ctx, roundKey)
		if p.After = time.Now().UnixMilli(); err != nil {
			if !isAnswer(err) {
				fmt.Fprintln(os.Stderr, "admit probe:", err)
				return 1
			}
			continue
		}
		if rdb.GetDel(ctx, "die").Val() != "" {
			note(ctx, rdb, p)
			rdb.LPush(ctx, "holding", p.Pid)
			<-ctx.Done() // killed before
			return 1
		}
		p.Reporting = time.Now().UnixMilli()
		note(ctx, rdb, p)
		if err := store.Report(ctx, t, Report{Outcome: Failure}); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			return 1
		}
	}
	return 0
}

func note(ctx context.Context, rdb *redis.Client, p probed) {
	text, _ := json.Marshal(p)
	rdb.RPush(ctx, "probes", text)
}

func TestCase10_EightProcessesRaceOverAndOverAndWinnersAreKilled(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	ctx := t.Context()
	store := NewRedis(rdb, roundSettings)
	tk, err := store.Admit(ctx, roundKey)
	if err == nil {
		err = store.Report(ctx, tk, Report{Outcome: Failure})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Admit(ctx, roundKey); err == nil { // the work that waits
		t.Fatal("the breaker did not open")
	}
	p := newProcs(t, proberAddr, server.Addr, racers)
	for range roundsToDie {
		rdb.Set(ctx, "die", 1, 0)
		won, err := rdb.BRPop(ctx, time.Minute, "holding").Result()
		if err != nil {
			t.Fatalf("nobody won: %v", err)
		}
		pid, _ := strconv.ParseInt(won[1], 10, 64)
		p.kill(pid)
		p.start()
	}
	for deadline := time.Now().Add(time.Minute); rdb.LLen(ctx, "probes").Val() < roundsReal; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d probes", rdb.LLen(ctx, "probes").Val())
		}
	}
	rdb.Set(ctx, "stop", 1, 0)
	p.wait()
	checkRounds(t, rdb.LRange(ctx, "probes", 0, -1).Val())
}

// checkRounds holds each probe to the end of the one before it: its report and
// the cooldown, or, where it was never reported or too late, its lease.
func checkRounds(t *testing.T, lines []string) {
	const slack = 2 // ms that two clocks' roundings can differ by
	var last probed
	died, winners := 0, map[int64]bool{}
	for i, line := range lines {
		var p probed
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		winners[p.Pid] = true
		lease := last.Before + roundLease.Milliseconds()
		next := lease
		if last.Reporting != 0 && last.Reporting < lease {
			next = last.Reporting + roundCool.Milliseconds()
		}
		if i > 0 && p.After < next-slack {
			t.Errorf("probe %d %+v came %d ms too early after %+v", i, p, next-p.After, last)
		}
		if last = p; p.Reporting == 0 {
			died++
		}
	}
	if died != roundsToDie || len(lines) < roundsReal {
		t.Errorf("%d probes, %d of processes that died", len(lines), died)
	}
	t.Logf("%d probes by %d processes, %d of them killed with the lease", len(lines), len(winners), died)
}
