package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

const (
	// racerEnv has the address of Redis and a token: the test binary runs itself with
	// it, as a process that finishes lines.
	racerEnv   = "NIGHTSHIFT_TEST_RACER"
	racedLines = 1000
)

// racer finishes every line of the batch at the moment when another process does:
// Redis counts who is ready. It notes the lines whose record is its own.
func racer(env string) error {
	addr, token, _ := strings.Cut(env, " ")
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	s, ctx := NewRedis(rdb, Options{}), context.Background()
	for n := int64(1); n <= racedLines; n++ {
		ref := Ref{Batch: "race", Line: n}
		l, err := s.Request(ctx, ref)
		if err != nil {
			return err
		}
		p := paid("openai/" + token)
		res := answer(l, p)
		if err := bothReady(ctx, rdb, n); err != nil {
			return err
		}
		err = s.Finish(ctx, Lease{ref, token}, p, Succeeded, res)
		switch {
		case err == nil:
			err = rdb.RPush(ctx, "won:"+token, n).Err()
		case errors.Is(err, ErrFenced):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bothReady returns when both processes are at a line.
func bothReady(ctx context.Context, rdb *redis.Client, line int64) error {
	ready := fmt.Sprint("ready:", line)
	n, err := rdb.Incr(ctx, ready).Result()
	for n < 2 && err == nil {
		n, err = rdb.Get(ctx, ready).Int64()
	}
	return err
}

// Two attempts hold the same answered line: one whose lease ran out, and the one
// that took it over. Two processes finish 1,000 such lines at the same moment: one
// record each, which has its own call's cost; the batch paid for both.
func TestCase36_TwoProcessesFinishTheSameLine(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	first := on(srv.Client(t))
	second := on(first.rdb) // another process, a minute later
	second.clock.step(61 * time.Second)
	first.submit(t, "race", jsonl(racedLines))
	for _, ref := range first.release(t, "race", racedLines) {
		first.begin(t, ref, "first", Granted)
		second.begin(t, ref, "second", Granted)
	}
	var both sync.WaitGroup
	for _, token := range []string{"first", "second"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), racerEnv+"="+srv.Addr+" "+token)
		cmd.Stderr = t.Output()
		both.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("the %s process: %v", token, err)
			}
		})
	}
	both.Wait()
	won := map[string]int{}
	for _, r := range first.records(t, "race") {
		n := result(t, r).Nightshift
		if len(n.Attempts) != 1 || n.CostUSD != 1000 {
			t.Fatalf("line %d: %+v", r.Line, n)
		}
		won[strings.TrimPrefix(n.Attempts[0].Model, "openai/")]++
	}
	t.Logf("records by process: %v", won)
	for _, token := range []string{"first", "second"} {
		if n := first.rdb.LLen(t.Context(), "won:"+token).Val(); n != int64(won[token]) {
			t.Errorf("the %s process was told that %d records are its own; they are %d", token, n, won[token])
		}
	}
	st := first.status(t, "race")
	if won["first"]+won["second"] != racedLines || st.Succeeded != racedLines || st.State != Done ||
		st.Calls != 2*racedLines || st.CostUSD != 2000*racedLines || st.WastedUSD != 1000*racedLines {
		t.Fatalf("%v, %+v", won, st)
	}
}
