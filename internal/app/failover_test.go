package app

import (
	"context"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/redistest"
)

// The master is lost in the middle of a batch, or silent as if its packets were
// dropped, and Sentinel makes the replica the master: workers follow, every line
// ends once, and no more calls are made twice than were in flight or not yet
// replicated.
func TestSentinelFailsOver(t *testing.T) {
	for name, lose := range map[string]func(*redistest.Server){
		"killed": func(s *redistest.Server) { s.Kill() },
		"silent": func(s *redistest.Server) { s.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, slots = 200, 5
			w := redistest.StartWatched(t)
			f := newFleet(t, fleetOptions{redisURL: w.URL(), rungs: "{model: a/one}", concurrency: slots, retries: 0, cooldown: "2s", maxCooldown: "16s"})
			f.up.delay = 100 * time.Millisecond
			f.submit("b", n)
			f.start()
			f.until(60*time.Second, "a third of the lines is done", func() bool { return f.status("b").Succeeded >= n/3 })
			lose(w.Master)
			w.AwaitFailover(t)
			var s batch.Status
			f.until(240*time.Second, "the batch is done", func() bool {
				var err error
				s, err = f.conn.Batches.Status(context.Background(), "b")
				return err == nil && s.State == batch.Done
			})
			if s.Succeeded != n {
				t.Errorf("status: %+v", s)
			}
			f.onceEach("b", n)
			if total, _ := f.up.counts(); total > n+2*slots {
				t.Errorf("%d calls for %d lines", total, n)
			}
		})
	}
}
