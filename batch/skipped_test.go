package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nightshift/provider"
)

func TestAttempts_PutsSkipsBetweenCalls(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	call := func(s int) provider.Call { return provider.Call{Model: fmt.Sprint("c", s), StartedAt: at(s)} }
	skip := func(s int) Skip { return Skip{Model: fmt.Sprint("s", s), At: at(s), Detail: "why"} }
	for _, tc := range []struct {
		p    Progress
		want string
	}{
		{Progress{}, ""},
		{Progress{Skipped: []Skip{skip(1), skip(1)}}, "s1 s1"},
		{Progress{Calls: []provider.Call{call(1), call(3)}, Skipped: []Skip{skip(2), skip(3), skip(4)}}, "c1 s2 c3 s3 s4"},
		// The calls of an earlier attempt, by a clock that was ahead, keep their order.
		{Progress{Calls: []provider.Call{call(9), call(2)}, Skipped: []Skip{skip(1), skip(3)}}, "s1 s3 c9 c2"},
	} {
		var got []string
		for _, c := range tc.p.Attempts() {
			got = append(got, c.Model)
			if skipped := c.Kind == KindSkipped; skipped != strings.HasPrefix(c.Model, "s") || c.Cost != 0 || c.LatencyMS != 0 {
				t.Errorf("%+v", c)
			}
		}
		if g := strings.Join(got, " "); g != tc.want {
			t.Errorf("got %q, want %q", g, tc.want)
		}
	}
}

// A line that nobody answered shows what its last attempt passed over, which
// counts as no call.
func TestSkipsOfAnExpiredLine(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(2), func(d *Description) { d.Deadline = b.clock.t.Add(time.Minute) })
	ref := b.release(t, "b", 2)[0]
	if begun := b.begin(t, ref, "t", Granted); begun.Outstanding != 2 {
		t.Errorf("%d outstanding", begun.Outstanding)
	}
	p := Progress{
		Calls:   []provider.Call{call("m", 5)},
		Skipped: []Skip{{Model: "x", At: b.clock.t.Add(time.Second), Detail: "its breaker is open"}},
	}
	must(t, b.Suspend(t.Context(), Lease{ref, "t"}, p, Wait{Reason: "x", Until: b.clock.t}))
	b.clock.step(time.Minute)
	if n, err := b.End(t.Context(), "b", 1, Expired, 9); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	res := result(t, b.records(t, "b")[0])
	if a := res.Nightshift.Attempts; len(a) != 2 || a[1].Kind != KindSkipped || a[1].Detail != "its breaker is open" {
		t.Errorf("attempts %+v", a)
	}
	if st := b.status(t, "b"); st.Calls != 1 || st.CostUSD != 5 {
		t.Errorf("%+v", st)
	}
}
