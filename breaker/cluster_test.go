package breaker

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// cluster starts three masters that share the slots, and returns a client.
func cluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	ctx := t.Context()
	const nodes, slots = 3, 16384
	var addrs []string
	var clients []*redis.Client
	for range nodes {
		_, bus, _ := net.SplitHostPort(redistest.FreeAddr(t))
		s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", bus)
		addrs = append(addrs, s.Addr)
		clients = append(clients, s.Client(t))
	}
	for i, c := range clients {
		if err := c.ClusterAddSlotsRange(ctx, i*slots/nodes, (i+1)*slots/nodes-1).Err(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		host, port, _ := net.SplitHostPort(addrs[i])
		info, err := c.Info(ctx, "server").Result()
		if err != nil || !strings.Contains(info, "redis_mode:cluster") {
			t.Fatalf("node %d: %v", i, err)
		}
		if err := clients[0].Do(ctx, "CLUSTER", "MEET", host, port, busPort(t, c)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	awaitCluster(t, clients)
	all := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = all.Close() })
	return all
}

// busPort is where a node listens for the others.
func busPort(t *testing.T, c *redis.Client) string {
	t.Helper()
	conf, err := c.ConfigGet(t.Context(), "cluster-port").Result()
	if err != nil {
		t.Fatal(err)
	}
	return conf["cluster-port"]
}

func awaitCluster(t *testing.T, nodes []*redis.Client) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for _, c := range nodes {
		for {
			info, err := c.ClusterInfo(t.Context()).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(nodes))) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the cluster does not form: %v\n%s", err, info)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func TestScriptsRunInARedisCluster(t *testing.T) {
	rdb := cluster(t)
	slots := map[int64]bool{}
	for i := range 12 { // enough providers to meet every node
		b := &bundle{
			T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000),
			key: Key{Provider: fmt.Sprintf("provider-%d", i), Region: "eu"},
		}
		b.key.Model = b.key.Provider + "/a"
		second := Key{Provider: b.key.Provider, Model: b.key.Provider + "/b", Region: "eu"}
		b.store = b.onRedis(rdb)
		slot, err := rdb.ClusterKeySlot(t.Context(), breakerKey(b.key)).Result()
		if err != nil {
			t.Fatal(err)
		}
		slots[slot*3/16384] = true
		b.trip()
		b.as(second, func() { b.report(b.admit(), Report{Hard: true, Scope: ScopeParent}) })
		b.rejected()
		b.pass(5 * time.Minute)
		if due := b.due(); len(due) != 1 {
			t.Fatalf("due: %v", due)
		}
		b.report(b.probe(), Report{Outcome: Success})
		if err := b.store.Force(context.Background(), b.key.Parent(), Force{Action: ForceReset}); err != nil {
			t.Fatal(err)
		}
		b.wantState(Closed)
		b.admit()
	}
	if len(slots) != 3 {
		t.Errorf("only %d of 3 nodes had work", len(slots))
	}
}
