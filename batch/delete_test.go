package batch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// left are the keys that are still of a batch.
func (b *bundle) left(tb testing.TB) (keys []string) {
	tb.Helper()
	all, err := b.rdb.Keys(tb.Context(), "*").Result()
	must(tb, err)
	for _, k := range all {
		if !strings.Contains(k, "{guard}") {
			keys = append(keys, k)
		}
	}
	return keys
}

// lived is a batch that has something under each of its keys, cancelled.
func lived(tb testing.TB, b *bundle, id string) (Lease, Begun) {
	tb.Helper()
	b.submit(tb, id, jsonl(6))
	refs := b.release(tb, id, 4)
	b.begin(tb, refs[0], "f", Granted)
	must(tb, b.Suspend(tb.Context(), Lease{refs[0], "f"}, paid("m"), Wait{Reason: "x", Until: b.clock.t}))
	b.begin(tb, refs[1], "crashed", Granted)
	b.clock.step(2 * time.Minute)
	b.begin(tb, refs[1], "g", Granted)
	b.end(tb, refs[2], Failed)
	if n, err := b.Retry(tb.Context(), id, Retry{}, nil); n != 1 || err != nil {
		tb.Fatal(n, err)
	}
	begun := b.begin(tb, refs[3], "live", Granted)
	if err := func() error { _, err := b.Vanish(tb.Context(), id); return err }(); !errors.Is(err, ErrRunning) {
		tb.Fatalf("a batch that runs vanished: %v", err)
	}
	must(tb, b.Cancel(tb.Context(), id))
	return Lease{refs[3], "live"}, begun
}

// A deleted batch leaves nothing, and attempts under way write nothing anew.
func TestDelete_LeavesNothing(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *bundle{"redis": setup, "miniredis": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			l, begun := lived(t, b, "b")
			d, err := b.Vanish(t.Context(), "b")
			must(t, err)
			b.afterwards(t, l, begun)
			must(t, b.Free(t.Context(), d))
			b.afterwards(t, l, begun)
			if keys := b.left(t); len(keys) > 0 {
				t.Errorf("left are %v", keys)
			}
			if _, err := b.Vanish(t.Context(), "b"); !errors.Is(err, ErrNotFound) {
				t.Errorf("again: %v", err)
			}
			b.submit(t, "b", jsonl(6)) // both its ID and its content are free
		})
	}
}

// afterwards sends everything that could still come of a batch that vanished.
func (b *bundle) afterwards(tb testing.TB, l Lease, begun Begun) {
	tb.Helper()
	ctx := tb.Context()
	fenced(tb, b.Checkpoint(ctx, l, paid("m")))
	if lost, err := b.Renew(ctx, []Lease{l}); err != nil || len(lost) > 1 {
		tb.Fatal(lost, err)
	}
	fenced(tb, b.Suspend(ctx, l, paid("m"), Wait{Reason: "x", Until: b.clock.t}))
	fenced(tb, b.Finish(ctx, l, paid("m"), Succeeded, answer(begun.Line, paid("m"))))
	b.begin(tb, l.Ref, "late", Over)
	must(tb, b.Touch(ctx, []Ref{l.Ref}))
	if refs := b.release(tb, "b", 9); len(refs) > 0 {
		tb.Fatalf("released %v", refs)
	}
	for _, err := range []error{
		b.Cancel(ctx, "b"), b.Update(ctx, "b", Update{Deadline: b.clock.t.Add(time.Hour)}),
		func() error { _, err := b.Retry(ctx, "b", Retry{}, nil); return err }(),
		func() error { _, err := b.Status(ctx, "b"); return err }(),
		func() error { _, err := b.Results(ctx, "b", 0, nil); return err }(),
	} {
		if !errors.Is(err, ErrNotFound) {
			tb.Errorf("of a deleted batch: %v", err)
		}
	}
}

// A deletion that was interrupted is found, by who repeats it and by the keeper,
// and its ID is taken until then.
func TestDelete_Interrupted(t *testing.T) {
	b := setup(t)
	lived(t, b, "b")
	_, err := b.Vanish(t.Context(), "b")
	must(t, err)
	d := describe(t, "b", jsonl(2))
	if err := b.Submit(t.Context(), d, reader(t, jsonl(2)), nil); !errors.Is(err, ErrDeleting) {
		t.Errorf("its ID again: %v", err)
	}
	if all, err := b.List(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("listed: %v, %v", all, err)
	}
	over, err := b.Overdue(t.Context(), 0)
	if err != nil || !slices.Equal(over, []string{"b"}) {
		t.Fatal(over, err)
	}
	again, err := b.Vanish(t.Context(), "b")
	must(t, err)
	must(t, b.Free(t.Context(), again))
	must(t, b.rdb.Del(t.Context(), contentKey(d.Digest)).Err()) // of the refused one
	if keys := b.left(t); len(keys) > 0 {
		t.Errorf("left are %v", keys)
	}
}

// Batches are kept from their end on; 0 keeps them for ever.
func TestOverdue(t *testing.T) {
	b := setup(t)
	b.submit(t, "runs", jsonl(1))
	b.submit(t, "done", jsonl(2))
	b.clock.step(time.Hour)
	must(t, b.Cancel(t.Context(), "done"))
	_, err := b.Settle(t.Context(), "done")
	must(t, err)
	for _, c := range []struct {
		after, keep time.Duration
		want        []string
	}{
		{time.Hour - time.Second, time.Hour, nil}, {time.Second, 0, nil}, {0, time.Hour, []string{"done"}},
	} {
		b.clock.step(c.after)
		if over, err := b.Overdue(t.Context(), c.keep); !slices.Equal(over, c.want) || err != nil {
			t.Errorf("%+v: %v, %v", c, over, err)
		}
	}
}
