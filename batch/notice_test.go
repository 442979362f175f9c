package batch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
)

const hold = time.Minute

// secretURL has secrets where people put them.
const secretURL = "https://user:hunter2@example.com/hook?token=hunter2"

// ended submits a batch with a URL and ends all its lines, two of which were out.
func (b *bundle) ended(tb testing.TB, id string) {
	tb.Helper()
	b.submit(tb, id, jsonl(5), func(d *Description) { d.Notify, d.Again = secretURL, true })
	must(tb, b.Cancel(tb.Context(), id))
	if n, err := b.End(tb.Context(), id, 1, Cancelled, 9); n != 5 || err != nil {
		tb.Fatalf("%d lines ended, %v", n, err)
	}
}

// look does what the keeper does in every round.
func (b *bundle) look(tb testing.TB) {
	tb.Helper()
	_, err := b.Backlogs(tb.Context())
	must(tb, err)
}

func (b *bundle) take(tb testing.TB) []Notice {
	tb.Helper()
	all, err := b.TakeNotices(tb.Context(), 1, 10, hold)
	must(tb, err)
	return all
}

// one takes the notice that is due.
func (b *bundle) one(tb testing.TB) Notice {
	tb.Helper()
	all := b.take(tb)
	if len(all) != 1 {
		tb.Fatalf("%d notices are due, want 1", len(all))
	}
	return all[0]
}

func (b *bundle) settle(tb testing.TB, n Notice, r NoticeResult) {
	tb.Helper()
	must(tb, b.SettleNotice(tb.Context(), n, r))
}

// indexed returns the batches that stand in an index.
func (b *bundle) indexed(tb testing.TB, index string) []string {
	tb.Helper()
	all, err := b.rdb.ZRange(tb.Context(), index, 0, -1).Result()
	must(tb, err)
	return all
}

func TestNotice_OncePerEnd(t *testing.T) {
	for name, on := range map[string]func(testing.TB) *bundle{"redis": setup, "embedded": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := on(t)
			b.ended(t, "b")
			if len(b.take(t)) != 0 {
				t.Fatal("told of before the keeper saw the end")
			}
			b.look(t)
			first := b.one(t)
			if first.URL != secretURL || first.Try != 1 || first.Since != 0 || strings.Contains(first.ID, ".") {
				t.Errorf("%+v", first)
			}
			if len(b.take(t)) != 0 {
				t.Error("taken twice")
			}
			b.clock.step(time.Second)
			b.settle(t, first, NoticeResult{Error: "it answers 500", Again: 10 * time.Second})
			b.clock.step(9 * time.Second)
			if len(b.take(t)) != 0 {
				t.Error("taken before its time")
			}
			b.clock.step(time.Second)
			second := b.one(t)
			if second.ID != first.ID || second.Try != 2 || second.Since != 11*time.Second || !cmp.Equal(second.Body, first.Body) {
				t.Errorf("%+v after %+v", second, first)
			}
			b.settle(t, second, NoticeResult{Told: true})
			b.clock.step(48 * time.Hour)
			b.look(t)
			if len(b.take(t)) != 0 || len(b.indexed(t, noticeKey)) != 0 {
				t.Error("told of again")
			}
		})
	}
}

func TestNotice_InTheStatus(t *testing.T) {
	b := setup(t)
	at := func(d time.Duration) *time.Time { return timePtr(newClock().t.Add(d)) }
	want := Notified{URL: "https://example.com/hook", State: NotifyWaiting, target: secretURL}
	same := func(when string) {
		t.Helper()
		got := b.status(t, "b").Notify
		if got == nil || !cmp.Equal(*got, want, cmp.AllowUnexported(Notified{})) {
			t.Errorf("%s: %+v", when, got)
		}
	}
	b.submit(t, "none", jsonl(1))
	if got := b.status(t, "none").Notify; got != nil {
		t.Errorf("nobody is to be told: %+v", got)
	}
	b.ended(t, "b")
	same("ended")
	b.look(t)
	n := b.one(t)
	want.Attempts, want.NextAt = 1, at(hold)
	same("under way")
	b.settle(t, n, NoticeResult{Error: "no answer", Again: 5 * time.Second})
	want.Error, want.NextAt = "no answer", at(5*time.Second)
	same("failed once")
	b.clock.step(time.Hour)
	b.settle(t, b.one(t), NoticeResult{Error: "gone"})
	want.State, want.Attempts, want.Error, want.NextAt = NotifyFailed, 2, "gone", nil
	same("given up")
	js, err := json.Marshal(b.status(t, "b"))
	must(t, err)
	if strings.Contains(string(js), "hunter2") || !strings.Contains(string(js), `"notify":{"url":"https://example.com/hook","state":"failed","attempts":2,"error":"gone","next_at":null,"told_at":null}`) {
		t.Errorf("%s", js)
	}
}

func TestNotice_TellsTheFiguresAndNoContent(t *testing.T) {
	b := setup(t)
	b.ended(t, "b")
	b.look(t)
	var got map[string]any
	must(t, json.Unmarshal(b.one(t).Body, &got))
	want := map[string]any{"type": "batch.done", "timestamp": "2026-03-01T22:00:00Z", "data": map[string]any{
		"id": "b", "state": "done", "queue": "overnight", "producer": "ann", "total": 5.0, "succeeded": 0.0, "failed": 0.0,
		"expired": 0.0, "cancelled": 5.0, "degraded": 0.0, "cost_usd": 0.0, "wasted_usd": 0.0,
		"created_at": "2026-03-01T22:00:00Z", "finished_at": "2026-03-01T22:00:00Z", "deadline": nil, "on_time": nil,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A retried batch is told of again at its next end, by another ID.
func TestNotice_ARetriedBatchIsToldOfAgain(t *testing.T) {
	b := setup(t)
	b.ended(t, "b")
	b.look(t)
	first := b.one(t)
	b.settle(t, first, NoticeResult{Error: "no", Again: time.Hour})
	again := func() {
		_, err := b.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.HIncrBy(t.Context(), metaKey("b"), "cancelled", -1)
			p.HDel(t.Context(), metaKey("b"), "finished_at")
			p.ZAdd(t.Context(), liveKey, redis.Z{Member: "b"})
			return nil
		})
		must(t, err)
	}
	finish := func() {
		b.clock.step(time.Minute)
		_, err := b.rdb.HSet(t.Context(), metaKey("b"), "finished_at", ms(b.clock.t)).Result()
		must(t, err)
		must(t, b.rdb.HIncrBy(t.Context(), metaKey("b"), "cancelled", 1).Err())
		b.look(t)
	}
	again()
	if n := b.status(t, "b").Notify; n.State != NotifyWaiting || n.Attempts != 0 || n.Error != "" {
		t.Errorf("retried: %+v", n)
	}
	b.settle(t, first, NoticeResult{Told: true}) // a late word of the first end
	finish()
	second := b.one(t)
	if second.ID == first.ID || second.Try != 1 || second.Since != 0 {
		t.Errorf("%+v after %+v", second, first)
	}
	b.settle(t, first, NoticeResult{Told: true})
	if n := b.status(t, "b").Notify; n.State != NotifyWaiting {
		t.Errorf("a word of the first end counts for the second: %+v", n)
	}
	b.settle(t, second, NoticeResult{Told: true})
	again()
	finish()
	if n := b.one(t); n.Try != 1 || n.ID == second.ID {
		t.Errorf("after an end that was told of: %+v", n)
	}
}

// The keeper that stalled in a try comes back when another has tried.
func TestNotice_TwoKeepers(t *testing.T) {
	b := setup(t)
	b.ended(t, "b")
	b.look(t)
	old := b.one(t)
	b.clock.step(hold)
	if _, err := b.TakeNotices(t.Context(), 0, 10, hold); !errors.Is(err, ErrFenced) {
		t.Errorf("an old keeper takes it: %v", err)
	}
	next := b.one(t)
	if next.ID != old.ID {
		t.Error("the ID changed, so nobody can drop the repetition")
	}
	b.settle(t, old, NoticeResult{Error: "late", Again: time.Second})
	if n := b.status(t, "b").Notify; n.Error != "" || !n.NextAt.Equal(b.clock.t.Add(hold)) {
		t.Errorf("the old one's failure counts: %+v", n)
	}
	b.settle(t, old, NoticeResult{Told: true})
	b.settle(t, next, NoticeResult{Error: "no", Again: time.Second})
	if n := b.status(t, "b").Notify; n.State != NotifyTold || n.Error != "" {
		t.Errorf("the old one's success does not: %+v", n)
	}
	b.clock.step(time.Hour)
	if len(b.take(t)) != 0 || len(b.indexed(t, noticeKey)) != 0 {
		t.Error("taken once more")
	}
}

// A keeper that dies between the two indexes leaves the batch in one of them, and a
// batch that ends again while it is taken out of the index stays there.
func TestNotice_NeverOutOfSight(t *testing.T) {
	b := setup(t)
	b.ended(t, "b")
	must(t, b.rdb.Set(t.Context(), noticeKey, "in the way", 0).Err())
	if _, err := b.Backlogs(t.Context()); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff([]string{"b"}, b.indexed(t, liveKey)); diff != "" {
		t.Fatal(diff)
	}
	must(t, b.rdb.Del(t.Context(), noticeKey).Err())
	b.look(t)
	if live, due := b.indexed(t, liveKey), b.indexed(t, noticeKey); len(live) != 0 || len(due) != 1 {
		t.Errorf("live %v, due %v", live, due)
	}
	place := ms(b.clock.t)
	must(t, b.rdb.ZAdd(t.Context(), noticeKey, redis.Z{Score: float64(place + 1), Member: "b"}).Err())
	must(t, b.move(t.Context(), "b", place, 0))
	if due := b.indexed(t, noticeKey); len(due) != 1 {
		t.Error("a new end was taken out with the old one")
	}
}

// What was deleted or cannot be read is no more in the way.
func TestNotice_OthersGoOn(t *testing.T) {
	b := setup(t)
	for _, id := range []string{"bad", "gone", "good"} {
		b.ended(t, id)
	}
	b.look(t)
	must(t, b.rdb.Del(t.Context(), metaKey("gone")).Err())
	must(t, b.rdb.HSet(t.Context(), metaKey("bad"), "d", "{broken").Err())
	all, err := b.TakeNotices(t.Context(), 1, 10, hold)
	if len(all) != 1 || all[0].Batch != "good" || err == nil || !strings.Contains(err.Error(), "bad") || strings.Contains(err.Error(), "gone") {
		t.Errorf("%+v, %v", all, err)
	}
	if diff := cmp.Diff([]string{"bad", "good"}, b.indexed(t, noticeKey)); diff != "" {
		t.Error(diff)
	}
	if all := b.take(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestNotice_NothingOfADeletedBatchStays(t *testing.T) {
	b := setup(t)
	b.ended(t, "b")
	b.look(t)
	d, err := b.Vanish(t.Context(), "b")
	must(t, err)
	must(t, b.Free(t.Context(), d))
	if due := b.indexed(t, noticeKey); len(due) != 0 {
		t.Errorf("%v", due)
	}
}
