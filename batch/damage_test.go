package batch

import (
	"strings"
	"testing"
	"time"
)

// One batch that cannot be read holds up no other.
func TestDamagedBatchesAreNamedAndPassedOver(t *testing.T) {
	for name, harm := range map[string]func(*bundle) error{
		"description": func(b *bundle) error {
			return b.rdb.HSet(t.Context(), metaKey("bad"), "d", "{broken").Err()
		},
		"another's description": func(b *bundle) error {
			return b.rdb.HSet(t.Context(), metaKey("bad"), "d", "{}").Err()
		},
		"another type": func(b *bundle) error {
			if err := b.rdb.Del(t.Context(), metaKey("bad")).Err(); err != nil {
				return err
			}
			return b.rdb.Set(t.Context(), metaKey("bad"), "x", 0).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			for _, id := range []string{"a", "bad", "c"} {
				b.submit(t, id, openAI(id))
				b.clock.step(time.Second)
			}
			must(t, harm(b))
			backlogs, err := b.Backlogs(t.Context())
			var ids []string
			for _, l := range backlogs {
				ids = append(ids, l.ID)
			}
			if got := strings.Join(ids, " "); got != "a c" || err == nil || !strings.Contains(err.Error(), "read backlog of bad: ") {
				t.Errorf("backlogs of %q, %v", got, err)
			}
			all, err := b.List(t.Context())
			ids = nil
			for _, st := range all {
				ids = append(ids, st.ID)
			}
			if got := strings.Join(ids, " "); got != "c a" || err == nil || !strings.Contains(err.Error(), "batch bad: ") {
				t.Errorf("list of %q, %v", got, err)
			}
			if st, err := b.Status(t.Context(), "bad"); err == nil {
				t.Errorf("status of the damaged batch: %+v", st)
			}
		})
	}
}

func TestBacklogs_WithoutRedisIsOneError(t *testing.T) {
	b := setup(t)
	for _, id := range []string{"a", "b"} {
		b.submit(t, id, openAI(id))
	}
	must(t, b.rdb.Close())
	if all, err := b.Backlogs(t.Context()); len(all) > 0 || err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d backlogs, %v", len(all), err)
	}
}

// What is decided on a backlog or an attempt is decided by the clock of Redis.
func TestTheTimeIsThatOfRedis(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(2))
	told := NewRedis(b.rdb, Options{}) // no clock of a test
	before, err := b.rdb.Time(t.Context()).Result()
	must(t, err)
	check := func(what string, now time.Time) {
		t.Helper()
		after, err := b.rdb.Time(t.Context()).Result()
		must(t, err)
		if now.Before(before.Truncate(time.Millisecond)) || now.After(after) {
			t.Errorf("%s: %s, not from %s to %s", what, now, before, after)
		}
	}
	backlogs, err := told.Backlogs(t.Context())
	must(t, err)
	check("backlog", backlogs[0].Now)
	ref := b.release(t, "b", 1)[0]
	for _, token := range []string{"t1", "t2"} { // granted, held
		got, err := told.Begin(t.Context(), ref, token)
		must(t, err)
		check("begin by "+token, got.Now)
	}
}
