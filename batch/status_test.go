package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

func TestWaitingFor(t *testing.T) {
	at := func(seconds int) time.Time { return evening.Add(time.Duration(seconds) * time.Second) }
	wait := func(model, reason string, seconds int) redis.KeyValue {
		return redis.KeyValue{Key: "1", Value: fmt.Sprintf(`{"Model":%q,"Reason":%q,"Until":%q}`, model, reason, at(seconds).Format(time.RFC3339))}
	}
	waits := []redis.KeyValue{wait("m", "breaker_open", 9), wait("", "retry", 5), wait("m", "breaker_open", 7), wait("m", "rate_limited", 9)}
	for lines, want := range map[int64][]int64{4: {1, 2, 1}, 400: {100, 200, 100}, 5: {1, 3, 1}} {
		got, err := waitingFor(waits, lines)
		must(t, err)
		if diff := cmp.Diff([]WaitingFor{
			{Reason: "retry", Until: at(5), Lines: want[0]},
			{Model: "m", Reason: "breaker_open", Until: at(7), Lines: want[1]},
			{Model: "m", Reason: "rate_limited", Until: at(9), Lines: want[2]},
		}, got); diff != "" {
			t.Errorf("of %d lines:\n%s", lines, diff)
		}
	}
	if _, err := waitingFor([]redis.KeyValue{{Key: "7", Value: "{"}}, 1); err == nil {
		t.Error("a damaged wait is passed over")
	}
}

// A process that comes later goes on where the batch stood: its counts, and a rate
// of what ends now, not of before the pause. A retry alone takes counts back.
func TestCase34_ProgressAfterAResumeAndARetry(t *testing.T) {
	b := setup(t)
	deadline := b.clock.t.Add(time.Hour)
	b.submit(t, "b", jsonl(20), func(d *Description) { d.Deadline = deadline })
	refs := b.release(t, "b", 20)
	for i, ref := range refs[:12] {
		b.end(t, ref, []Outcome{Succeeded, Failed}[i%2])
	}
	before := b.status(t, "b")
	later := on(b.rdb)
	later.clock.t = b.clock.t.Add(10 * time.Minute)
	st := later.status(t, "b")
	if st.Succeeded != 6 || st.Failed != 6 || st.CostUSD != before.CostUSD || st.Calls != before.Calls || st.RatePerMinute != 0 || st.ETA != nil {
		t.Fatalf("after the pause: %+v", st)
	}
	later.end(t, refs[12], Succeeded)
	later.end(t, refs[13], Succeeded)
	later.clock.step(time.Minute)
	if st = later.status(t, "b"); st.RatePerMinute != 2 || !st.ETA.Equal(later.clock.t.Add(3*time.Minute)) || !*st.OnTime {
		t.Fatalf("two lines a minute, six to go: %+v, ETA %v", st, st.ETA)
	}
	for _, ref := range refs[14:] {
		later.end(t, ref, Succeeded)
	}
	if st = later.status(t, "b"); st.State != Done || st.FinishedAt == nil {
		t.Fatalf("%+v", st)
	}
	if _, err := later.Retry(t.Context(), "b", Retry{}, nil); err != nil {
		t.Fatal(err)
	}
	if st = later.status(t, "b"); st.State != Running || st.FinishedAt != nil || st.Succeeded != 14 || st.Failed != 0 || st.Outstanding != 6 || st.ETA == nil {
		t.Fatalf("after the retry: %+v", st)
	}
}

// flood makes lines of a batch wait, as far as its status can tell.
func flood(tb testing.TB, rdb redis.UniversalClient, id string, lines int) {
	tb.Helper()
	for from := 1; from <= lines; from += 10_000 {
		var waits, out []any
		for l := from; l < from+10_000 && l <= lines; l++ {
			waits = append(waits, l, fmt.Sprintf(`{"Model":"m%d","Reason":"breaker_open","Until":"2026-03-01T22:00:%02dZ"}`, l%2, l%60))
			out = append(out, l, "0 0 1 0")
		}
		must(tb, rdb.HSet(tb.Context(), key(id, "wait"), waits...).Err())
		must(tb, rdb.HSet(tb.Context(), key(id, "out"), out...).Err())
	}
}

// A status is read in two round trips, and of however many lines wait no more than
// a sample comes back.
func TestStatus_IsBounded(t *testing.T) {
	b := setup(t)
	const lines = 5000
	b.submit(t, "b", jsonl(lines))
	flood(t, b.rdb, "b", lines)
	trips, size := &redistest.Trips{}, &replies{}
	b.rdb.AddHook(trips)
	b.rdb.AddHook(size)
	st := b.status(t, "b")
	if st.State != Waiting || len(st.WaitingFor) != 2 {
		t.Fatalf("%s, waits for %+v", st.State, st.WaitingFor)
	}
	sum := int64(0)
	for _, w := range st.WaitingFor {
		sum += w.Lines
		if w.Lines < lines*2/5 || w.Lines > lines*3/5 {
			t.Errorf("%d of %d lines wait for %s, which is half", w.Lines, lines, w.Model)
		}
	}
	if sum < lines-1 || sum > lines+1 || trips.N() != 1 || size.waits != waitSample {
		t.Errorf("%d lines, %d round trips, %d of the lines", sum, trips.N(), size.waits)
	}
	if _, err := b.List(t.Context()); err != nil || trips.N() != 3 || size.waits != waitSample+waitSampleOfMany {
		t.Errorf("a list takes %d round trips and %d of the lines; %v", trips.N()-1, size.waits-waitSample, err)
	}
}

// replies counts the lines that came back of those that wait.
type replies struct {
	redis.Hook
	waits int
}

func (r *replies) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (r *replies) DialHook(next redis.DialHook) redis.DialHook          { return next }

func (r *replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			if sample, ok := c.(*redis.Cmd); ok && strings.EqualFold(c.Name(), "hrandfield") {
				r.waits += len(pairsOf(sample.Val()))
			}
		}
		return err
	}
}

// BenchmarkList lists 500 batches, of which one has a million lines, and a tenth of
// them waits.
func BenchmarkList(b *testing.B) {
	s := setup(b)
	d := Description{Producer: "ann", Queue: "overnight", Total: 1_000_000, Digest: "x", CreatedAt: s.clock.t}
	for i := range 500 {
		d.ID = fmt.Sprintf("b%d", i)
		js, err := json.Marshal(d)
		must(b, err)
		must(b, s.rdb.HSet(b.Context(), metaKey(d.ID), "d", js, "total", d.Total, "committed", 1, "succeeded", 10, "calls", 10).Err())
		must(b, s.rdb.ZAdd(b.Context(), allKey, redis.Z{Score: float64(i), Member: d.ID}).Err())
		flood(b, s.rdb, d.ID, 100)
	}
	flood(b, s.rdb, "b7", 100_000)
	b.ResetTimer()
	for b.Loop() {
		if all, err := s.List(b.Context()); err != nil || len(all) != 500 {
			b.Fatal(len(all), err)
		}
	}
}
