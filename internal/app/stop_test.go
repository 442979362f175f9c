package app

import (
	"syscall"
	"testing"
	"time"
)

// A worker whose Redis is silent, not gone, still ends within its promise.
func TestStopWithASilentRedis(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 5, retries: 0, cooldown: "2s", maxCooldown: "16s"})
	f.submit("b", 20)
	w := f.start()
	f.done("b", 60*time.Second)
	f.redis.Freeze(t)
	defer f.redis.Thaw(t)
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }()
	select {
	case <-ended:
	case <-time.After(25 * time.Second):
		t.Error("it still runs 25 s after SIGTERM, with nothing in flight")
	}
}
