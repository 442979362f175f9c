package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Watched is a master with a replica, and three sentinels that watch them: where the
// master is silent for a second, they make the replica the master.
type Watched struct {
	Master, Replica *Server
	sentinels       []*Server
}

// masterName is what the sentinels call them.
const masterName = "night"

// StartWatched starts them with the same arguments for master and replica, and waits
// until the replica has what the master has and the sentinels know each other and it.
func StartWatched(tb testing.TB, args ...string) *Watched {
	tb.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...) // else the replica is empty for 5 s
	w := &Watched{Master: Start(tb, args...)}
	host, port, _ := net.SplitHostPort(w.Master.Addr)
	w.Replica = Start(tb, append([]string{"--replicaof", host, port}, args...)...)
	w.awaitReplica(tb)
	for range 3 {
		w.sentinels = append(w.sentinels, startSentinel(tb, host, port))
	}
	for _, s := range w.sentinels {
		w.await(tb, s, "num-slaves", "1")
		w.await(tb, s, "num-other-sentinels", "2")
	}
	return w
}

// awaitReplica waits until the replica follows its master.
func (w *Watched) awaitReplica(tb testing.TB) {
	tb.Helper()
	c := w.Replica.Client(tb)
	var info string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		info, _ = c.Info(context.Background(), "replication").Result()
		if strings.Contains(info, "master_link_status:up") {
			return
		}
	}
	tb.Fatalf("the replica does not follow its master: %s", info)
}

func startSentinel(tb testing.TB, host, port string) *Server {
	tb.Helper()
	addr := FreeAddr(tb)
	_, own, _ := net.SplitHostPort(addr)
	s := &Server{Addr: addr, dir: tb.TempDir()}
	file := filepath.Join(s.dir, "sentinel.conf") // a sentinel writes to it
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nlogfile %s\n", own, s.dir, filepath.Join(s.dir, "redis.log")) +
		fmt.Sprintf("sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 5000\n",
			masterName, host, port, masterName, masterName)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.Restart(tb)
	tb.Cleanup(func() { s.Kill() })
	return s
}

// await waits until a sentinel says so of the master.
func (w *Watched) await(tb testing.TB, s *Server, field, want string) {
	tb.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	var said map[string]string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		said, _ = c.Master(context.Background(), masterName).Result()
		if said[field] == want {
			return
		}
	}
	tb.Fatalf("the sentinel at %s says %s %q of the master, want %q: %v", s.Addr, field, said[field], want, said)
}

// URL returns the sentinels' addresses as a URL of database 0.
func (w *Watched) URL() string {
	var addrs []string
	for _, s := range w.sentinels {
		addrs = append(addrs, s.Addr)
	}
	return "redis-sentinel://" + strings.Join(addrs, ",") + "/0?master=" + masterName
}

// AwaitFailover waits until all sentinels take the replica for the master.
func (w *Watched) AwaitFailover(tb testing.TB) {
	tb.Helper()
	_, port, _ := net.SplitHostPort(w.Replica.Addr)
	for _, s := range w.sentinels {
		w.await(tb, s, "port", port)
	}
}
