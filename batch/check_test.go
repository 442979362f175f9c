package batch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nightshift/provider"
)

// check compares everything that is kept with the model.
func (m *machine) check(t *rapid.T) {
	st, err := m.b.Status(m.tb.Context(), m.id)
	expect(t, err)
	counts, calls, cost, wasted, deferrals := m.m.sums()
	got := map[string]int64{
		"succeeded": st.Succeeded, "failed": st.Failed, "expired": st.Expired, "cancelled": st.Cancelled,
		"calls": st.Calls, "cost": int64(st.CostUSD), "wasted": int64(st.WastedUSD), "deferrals": st.Deferrals,
		"degraded": st.Degraded, "cached": st.Cached, "outstanding": st.Outstanding,
	}
	ended := int64(len(m.m.log))
	want := map[string]int64{
		"succeeded": counts[Succeeded], "failed": counts[Failed], "expired": counts[Expired], "cancelled": counts[Cancelled],
		"calls": calls, "cost": int64(cost), "wasted": int64(wasted), "deferrals": deferrals,
		"degraded": m.m.degraded, "cached": m.m.cached, "outstanding": m.m.total - ended,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal("counters: " + diff)
	}
	if diff := cmp.Diff(m.m.by, st.AnsweredBy); diff != "" {
		t.Fatal("answered by: " + diff)
	}
	endedAs := map[string]int64{}
	for _, l := range m.m.lines {
		if l.outcome != "" && l.outcome != Succeeded {
			endedAs[l.failedAs]++
		}
	}
	maps.DeleteFunc(st.EndedAs, func(_ string, n int64) bool { return n == 0 }) // all of them were taken back
	if diff := cmp.Diff(endedAs, st.EndedAs); diff != "" {
		t.Fatal("ended as: " + diff)
	}
	if why := st.DeferredFor["breaker_open"]; why > deferrals || len(st.DeferredFor) > 1 {
		t.Fatalf("deferred for %v, %d deferrals", st.DeferredFor, deferrals)
	}
	if deadline := timePtr(m.m.deadline); (st.Deadline == nil) != (deadline == nil) || deadline != nil && !st.Deadline.Equal(*deadline) {
		t.Fatalf("deadline %v, want %v", st.Deadline, deadline)
	}
	if done := ended == m.m.total; done != (st.State == Done) || done != (st.FinishedAt != nil) {
		t.Fatalf("state %s, finished at %v, with %d of %d lines", st.State, st.FinishedAt, ended, m.m.total)
	}
	m.checkOut(t)
	m.checkRecords(t)
	m.checkProgress(t)
	m.checkLeftovers(t)
}

func (m *machine) checkOut(t *rapid.T) {
	out, err := m.b.Out(m.tb.Context(), m.id)
	expect(t, err)
	var want []OutEntry
	deferred := map[int]int{}
	backlog := map[int]int64{}
	for _, l := range m.m.lines {
		if l.outcome != "" {
			continue
		}
		if !l.released {
			backlog[l.class]++
			continue
		}
		if l.waits {
			deferred[l.class]++
		}
		want = append(want, OutEntry{Ref: Ref{m.id, l.number, l.gen}, Rung: l.class, Since: l.since, Leased: l.live(m.b.clock.t)})
	}
	for i := range out {
		if waits := out[i].Wait != (Wait{}); i < len(want) && waits != m.m.line(out[i].Ref.Line).waits {
			t.Fatalf("line %d waits for %+v", out[i].Ref.Line, out[i].Wait)
		}
		out[i].Wait = Wait{}
	}
	if diff := cmp.Diff(want, out); diff != "" && len(want)+len(out) > 0 {
		t.Fatal("out: " + diff)
	}
	meta, err := m.b.rdb.HGetAll(m.tb.Context(), metaKey(m.id)).Result()
	expect(t, err)
	b, err := state(meta).backlog(m.id, int64(len(out)))
	expect(t, err)
	if b.Cancelled != m.m.cancelled {
		t.Fatalf("cancelled %v, want %v", b.Cancelled, m.m.cancelled)
	}
	if !maps.Equal(b.Deferred, deferred) || !maps.Equal(b.Classes, backlog) {
		t.Fatalf("deferred %v, want %v; backlog %v, want %v", b.Deferred, deferred, b.Classes, backlog)
	}
}

func (m *machine) checkRecords(t *rapid.T) {
	i := 0
	_, err := m.b.Results(m.tb.Context(), m.id, 0, func(r Record) error {
		l := m.m.line(r.Line)
		if i >= len(m.m.log) || m.m.log[i] != r.Line || l.outcome != r.Outcome {
			t.Fatalf("record %d is line %d, %s; the log is %v", i, r.Line, r.Outcome, m.m.log)
		}
		i++
		var res Result
		expect(t, json.Unmarshal(r.JSON, &res))
		if res.CustomID != fmt.Sprintf("%s-%d", m.id, l.number-1) || (l.code == "") != (res.Error == nil) || (l.code == "" && res.ID != l.winner) {
			t.Fatalf("record of line %d by %s (code %q): %s", l.number, l.winner, l.code, r.JSON)
		}
		var cost provider.USD
		for _, c := range l.record {
			cost += c.cost
		}
		names := callNames(res.Nightshift.Attempts)
		if res.Nightshift.CostUSD != cost || !slices.Equal(names, modelNames(l.record)) {
			t.Fatalf("record of line %d: %v for %s, want %v for %s", l.number, names, res.Nightshift.CostUSD, l.record, cost)
		}
		return nil
	})
	expect(t, err)
	if i != len(m.m.log) {
		t.Fatalf("%d records, want %d", i, len(m.m.log))
	}
}

// checkProgress compares what is stored of the lines under way.
func (m *machine) checkProgress(t *rapid.T) {
	stored, err := m.b.rdb.HGetAll(m.tb.Context(), key(m.id, "prog")).Result()
	expect(t, err)
	for _, l := range m.m.lines {
		var p Progress
		if _, body, ok := strings.Cut(stored[fmt.Sprint(l.number)], "\n"); ok {
			expect(t, json.Unmarshal([]byte(body), &p))
		}
		if got, want := callNames(p.Calls), modelNames(l.stored); !slices.Equal(got, want) {
			t.Fatalf("progress of line %d: %v, want %v", l.number, got, want)
		}
	}
}

// checkLeftovers: a line with a record keeps nothing of its life but the marks
// of the last other attempts, which may still send something.
func (m *machine) checkLeftovers(t *rapid.T) {
	for _, name := range []string{"out", "wait", "lease", "prog", "crash"} {
		held, err := m.b.rdb.HKeys(m.tb.Context(), key(m.id, name)).Result()
		expect(t, err)
		for _, l := range m.m.lines {
			if l.outcome != "" && slices.Contains(held, fmt.Sprint(l.number)) {
				t.Fatalf("line %d has a record, and %s too", l.number, name)
			}
		}
	}
	marks, err := m.b.rdb.HGetAll(m.tb.Context(), key(m.id, "marks")).Result()
	expect(t, err)
	leases, err := m.b.rdb.HGetAll(m.tb.Context(), key(m.id, "lease")).Result()
	expect(t, err)
	for _, l := range m.m.lines {
		var kept []string
		if lease, first := strings.CutSuffix(leases[fmt.Sprint(l.number)], " first"); first {
			_, holder, _ := strings.Cut(lease, " ") // its mark is not written
			kept = append(kept, holder)
		}
		for m := range strings.SplitSeq(strings.TrimSuffix(marks[fmt.Sprint(l.number)], ";"), ";") {
			if token, _, ok := strings.Cut(m, " "); ok {
				kept = append(kept, token)
			}
		}
		if !slices.Equal(kept, l.known) {
			t.Fatalf("line %d has marks of %v, want %v", l.number, kept, l.known)
		}
	}
}
