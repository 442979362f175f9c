package breaker

import (
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// TestARecordInUseLivesOn: what expires in Redis is what nobody has used for a
// day, whichever way the scripts take.
func TestARecordInUseLivesOn(t *testing.T) {
	rdb := redistest.Client(t)
	store := NewRedis(rdb, fixed(Settings{}))
	key := Key{Provider: "p", Model: "p/a"}
	levels := []string{breakerKey(key), breakerKey(key.Parent())}
	admit := func() Ticket {
		tk, err := store.Admit(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return tk
	}
	report := func(r Report) func() {
		tk := admit() // which lengthens lives, too
		return func() {
			if err := store.Report(t.Context(), tk, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, use := range map[string]func(){
		"an admission": func() { admit() },
		"a success":    report(Report{Outcome: Success}),
		"a failure":    report(Report{Outcome: Failure}),
	} {
		for _, l := range levels {
			if err := rdb.PExpire(t.Context(), l, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
		use()
		for _, l := range levels {
			if left := rdb.PTTL(t.Context(), l).Val(); left < 24*time.Hour {
				t.Errorf("after %s, %s expires in %s", name, l, left)
			}
		}
	}
	if err := store.Force(t.Context(), key, Force{Action: ForceClose, For: 1000 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	report(Report{Outcome: Success})()
	if left := rdb.PTTL(t.Context(), levels[0]).Val(); left < 1000*time.Hour {
		t.Errorf("a breaker that is held for 1000 hours expires in %s", left)
	}
}
