package ladder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/limit"
)

// probing is how many probes of the breaker are out.
func (j *joint) probing() int { return j.breaker().Probing }

func (j *joint) breaker() breaker.Status {
	j.Helper()
	list, err := j.breakers.List(j.Context(), []breaker.Key{doorKey})
	if err != nil {
		j.Fatal(err)
	}
	return list[0]
}

// due opens the breaker and waits until the next call is to be its probe.
func (j *joint) due() {
	j.Helper()
	if err := j.breakers.Force(j.Context(), doorKey, breaker.Force{Action: breaker.ForceOpen, For: 10 * time.Millisecond}); err != nil {
		j.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !j.breaker().TaskDue; {
		if time.Now().After(end) {
			j.Fatal("no probe is due")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The breaker granted a probe and the guard's answer was lost: whatever becomes
// of the entry, nobody waits for the end of that probe's lease.
func TestAProbeOfWhichOnlyAPartWasHeardIsGivenBack(t *testing.T) {
	for _, tc := range []struct {
		name  string
		alone bool // the entry may go on without Redis
		ends  bool // the attempt ends meanwhile
		calls int64
	}{{"goes on alone", true, false, 2}, {"may not", false, false, 1}, {"attempt ends", true, true, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			j := joined(t, limit.Limits{}, 0)
			_, _ = j.gate.Leave(t.Context(), j.enter("warm"), passed(1)) // the scripts are loaded
			j.due()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			j.after = func(cmds []redis.Cmder) {
				loseLast(cmds)
				if same(t, "probes out", j.probing(), 1); tc.ends {
					cancel()
				}
			}
			e := j.entry("one")
			e.Ask.Alone = tc.alone
			p, err := j.gate.Enter(ctx, e)
			switch {
			case err == nil:
				_, err = j.gate.Leave(t.Context(), p, passed(1))
			case errors.Is(err, ErrAlone) && !tc.alone, tc.ends:
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
			j.back()
			same(t, "probes out", j.probing(), 0)
			j.want(0, 0, tc.calls, tc.calls)
		})
	}
}

// A place that is waited for is asked for again, by the same ticket: what is told
// late must not take away what the ticket has got by then.
func TestAPlaceThatIsWaitedForAloneIsNotGivenBack(t *testing.T) {
	j := joined(t, limit.Limits{Concurrency: 1}, 0)
	_, _ = j.gate.Leave(t.Context(), j.enter("warm"), passed(1)) // the scripts are loaded
	j.cut.Store(true)
	lone := j.enter("lone")
	e := j.waits("two")
	j.cut.Store(false)
	j.skip.Add(int64(2 * time.Second))
	p, err := j.gate.Enter(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	j.want(1, 0, 3, 1001)
	for _, p := range []Pass{lone, p} {
		if _, err := j.gate.Leave(t.Context(), p, passed(1)); err != nil {
			t.Fatal(err)
		}
	}
	j.want(0, 0, 3, 3)
}

// What was owed of a question must not take away what a later one has got: a line
// that waited alone goes alone, and is in flight when Redis hears of both.
func TestARefundThatComesLateTakesNoLaterCallAway(t *testing.T) {
	j := joined(t, limit.Limits{Concurrency: 1}, 0)
	_, _ = j.gate.Leave(t.Context(), j.enter("warm"), passed(1)) // the scripts are loaded
	j.cut.Store(true)
	first := j.enter("one")
	e := j.waits("two") // which owes a refund of what may have been counted
	if _, err := j.gate.Leave(t.Context(), first, passed(1)); err != nil {
		t.Fatal(err)
	}
	second, err := j.gate.Enter(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	j.back()
	j.want(0, 0, 3, 502) // the shared pace knows no call that goes alone
	if _, err := j.gate.Leave(t.Context(), second, passed(1)); err != nil {
		t.Fatal(err)
	}
	j.want(0, 0, 3, 3)
}
