package app

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"nightshift/batch"
)

// The same file again is answered without a call, by any worker of the fleet,
// and every result says so.
func TestTheSameFileAgainIsAnsweredFromTheCache(t *testing.T) {
	t.Parallel()
	const n = 30
	f := newFleet(t, fleetOptions{
		rungs: "{model: a/one}", concurrency: 5, retries: 0, cooldown: "30s", maxCooldown: "5m", cache: time.Hour,
	})
	f.submit("first", n)
	first := f.start()
	if s := f.done("first", 60*time.Second); s.Succeeded != n || s.Calls != n || s.Cached != 0 {
		t.Fatalf("first: %+v", s)
	}
	kill(first)
	f.start()
	f.submit("again", n, func(d *batch.Description) { d.Again = true })
	s := f.done("again", 60*time.Second)
	if s.Succeeded != n || s.Cached != n || s.Calls != 0 || s.CostUSD != 0 || s.Degraded != 0 || s.AnsweredBy["a/one"] != n || len(s.AnsweredBy) != 1 {
		t.Errorf("again: %+v", s)
	}
	if total, probes := f.up.counts(); total != n || probes != 0 {
		t.Errorf("%d calls and probes, want %d calls", total, n)
	}
	f.onceEach("again", n)
	_, err := f.conn.Batches.Results(context.Background(), "again", 0, func(rec batch.Record) error {
		var r batch.Result
		err := json.Unmarshal(rec.JSON, &r)
		if x := r.Nightshift; !x.Cached || x.Model != "a/one" || x.Provider != "a" || len(x.Attempts) != 0 || x.Usage.InputTokens != 0 || x.CostUSD != 0 {
			t.Errorf("%s", rec.JSON)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
