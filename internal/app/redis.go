package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"nightshift/config"
)

// Redis makes clients of one Redis. Each purpose has its own, because they fail
// differently: see the constructors.
type Redis struct {
	target   config.RedisTarget
	embedded *embedded
	times    func(connection string) redis.Hook // may be nil
	clients  []redis.UniversalClient
}

// OpenRedis prepares clients of the configured Redis, or starts an embedded one
// in this process. It connects to nothing yet.
func OpenRedis(c config.Redis) (*Redis, error) {
	t, err := c.Target()
	if err != nil {
		return nil, fmt.Errorf("read redis url: %w", err)
	}
	r := &Redis{}
	if t.Kind == config.RedisEmbedded {
		e, password, err := startEmbedded()
		if err != nil {
			return nil, err
		}
		r.embedded = e
		t = config.RedisTarget{Kind: config.RedisSingle, Network: "tcp", Addrs: []string{e.server.Addr()}, Password: password}
	}
	r.target = t
	return r, nil
}

// open makes a client of the target with a purpose's settings.
func (r *Redis) open(tweak func(*redis.UniversalOptions)) redis.UniversalClient {
	t := r.target
	o := &redis.UniversalOptions{
		Addrs: t.Addrs, DB: t.DB, Username: t.Username, Password: t.Password,
		MasterName: t.Master, SentinelPassword: t.SentinelPassword, IsClusterMode: t.Kind == config.RedisCluster,
	}
	if t.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tweak(o)
	if t.Network == "unix" {
		single := o.Simple()
		single.Network = "unix"
		return redis.NewClient(single)
	}
	return redis.NewUniversalClient(o)
}

// MakeRedisClient implements asynq.RedisConnOpt: each call gives a client of
// its own, which the caller closes.
func (r *Redis) MakeRedisClient() any {
	return r.open(func(*redis.UniversalOptions) {})
}

// State returns a client for batches, limits and the keeper. What it writes is
// idempotent, so its retries are safe.
func (r *Redis) State() redis.UniversalClient {
	return r.client(stateConnection, func(o *redis.UniversalOptions) {
		o.MaxRetries, o.ContextTimeoutEnabled = 3, true
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout = 5*time.Second, 5*time.Second, 5*time.Second
		o.PoolSize = 64
	})
}

// Queue returns a client for an asynq server. It retries for longer than a
// restart of Redis takes (12 s measured without a rerun), since asynq itself
// cannot mend a failed ack.
func (r *Redis) Queue() redis.UniversalClient {
	c := r.client(queueConnection, func(o *redis.UniversalOptions) {
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 40, 100*time.Millisecond, time.Second
		o.PoolSize = 64
	})
	c.AddHook(greetingHook{})
	return c
}

// Breaker returns a client for breakers and parks: it answers soon or not at
// all, and retries nothing by itself.
func (r *Redis) Breaker() redis.UniversalClient {
	return r.client(breakerConnection, func(o *redis.UniversalOptions) {
		o.MaxRetries, o.ContextTimeoutEnabled = -1, true
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout = 2*time.Second, 2*time.Second, 2*time.Second
		o.PoolSize = 64
	})
}

func (r *Redis) client(connection string, tweak func(*redis.UniversalOptions)) redis.UniversalClient {
	c := r.open(tweak)
	if r.times != nil {
		c.AddHook(r.times(connection))
	}
	c.AddHook(fullHook{})
	r.clients = append(r.clients, c)
	return c
}

// redisLog takes go-redis's own lines, which would go to standard error. They
// repeat, for each connection, what our errors say once.
type redisLog struct{ log *slog.Logger }

// Printf implements go-redis's Logging.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "text", fmt.Sprintf(format, v...))
}

// Close closes all clients, and the embedded server where there is one.
func (r *Redis) Close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	if r.embedded != nil {
		r.embedded.stop()
	}
	return errors.Join(errs...)
}

// embedded is a Redis in this process, for a single one. Its TTLs do not elapse
// by themselves, so a loop drives them.
type embedded struct {
	server *miniredis.Miniredis
	cancel context.CancelFunc
	done   chan struct{}
}

// startEmbedded returns the server with its password: the port is open to every
// user of the machine, the batch is not.
func startEmbedded() (*embedded, string, error) {
	server, password := miniredis.NewMiniRedis(), rand.Text()
	server.RequireAuth(password)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, "", fmt.Errorf("start embedded redis: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &embedded{server, cancel, make(chan struct{})}
	go e.drive(ctx)
	return e, password, nil
}

func (e *embedded) drive(ctx context.Context) {
	defer close(e.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) stop() {
	e.cancel()
	<-e.done
	e.server.Close()
}
