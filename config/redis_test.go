package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedisTarget(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]RedisTarget{
		"embedded":                    {Kind: RedisEmbedded},
		"redis://localhost":           {Kind: RedisSingle, Network: "tcp", Addrs: []string{"localhost:6379"}},
		"redis://127.0.0.1:7000/3":    {Kind: RedisSingle, Network: "tcp", Addrs: []string{"127.0.0.1:7000"}, DB: 3},
		"redis://[::1]:7000/":         {Kind: RedisSingle, Network: "tcp", Addrs: []string{"[::1]:7000"}},
		"redis://[::1]":               {Kind: RedisSingle, Network: "tcp", Addrs: []string{"[::1]:6379"}},
		"rediss://me:p%40ss@host:1/0": {Kind: RedisSingle, Network: "tcp", Addrs: []string{"host:1"}, TLS: true, Username: "me", Password: "p@ss"},
		"redis://:a@b@host":           {Kind: RedisSingle, Network: "tcp", Addrs: []string{"host:6379"}, Password: "a@b"},
		"redis-socket:///run/r.sock":  {Kind: RedisSingle, Network: "unix", Addrs: []string{"/run/r.sock"}},
		"redis-socket://:pw@/run/r.sock?db=2": {
			Kind: RedisSingle, Network: "unix", Addrs: []string{"/run/r.sock"}, Password: "pw", DB: 2,
		},
		"redis-sentinel://:pw@a,b:2/1?master=m&sentinel_password=s": {
			Kind: RedisSentinel, Network: "tcp", Addrs: []string{"a:26379", "b:2"},
			Password: "pw", DB: 1, Master: "m", SentinelPassword: "s",
		},
		"redis-cluster://a:1,b:2,c": {Kind: RedisCluster, Network: "tcp", Addrs: []string{"a:1", "b:2", "c:6379"}},
	} {
		got, err := Redis{URL: url}.Target()
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if !cmp.Equal(want, got) {
			t.Errorf("%s: got %#v of %v", url, got, got.Addrs)
		}
	}
}

func TestRedisTarget_Bad(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "localhost:6379", "http://localhost", "redis:", "redis://", "redis:///0", "redis://:6379", "redis://a:0", "redis://a:65536",
		"redis://a:b", "redis://a/x", "redis://a/-1", "redis://a,b", "redis://a?db=1", "redis://a b", "redis://::1", "redis://[::1", "redis://%zz@a",
		"redis-socket://", "redis-socket://host/run/r.sock", "redis-socket:///r.sock?db=x", "redis-socket:///r.sock?database=1",
		"redis-sentinel://a", "redis-sentinel://a,,b?master=m", "redis-cluster://a/1", "redis-cluster://", "Embedded", "redis://a?%zz",
	} {
		if got, err := (Redis{URL: url}).Target(); err == nil {
			t.Errorf("%q is accepted as %#v", url, got)
		}
	}
}

// TestRedisTarget_PrintedIsReadAgain: what is shown names the same Redis.
func TestRedisTarget_PrintedIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"embedded", "redis://a:1/2", "rediss://a:1/2", "redis-socket:///run/r.sock?db=2", "redis-cluster://a:1,b:2", "redis-sentinel://a:1,b:2/3?master=m",
	} {
		if got := (Redis{URL: url}).String(); got != url {
			t.Errorf("%s is shown as %s", url, got)
		}
	}
}
