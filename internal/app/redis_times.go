package app

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// redisBuckets are the bounds of a round trip to Redis, in seconds. On the same
// machine it takes 0.1 to 1 ms, in a network of a data center 0.5 to 2 ms; from
// 10 ms on something is slow; 2 and 5 s are the limits of our connections.
var redisBuckets = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2, 5}

// The purposes of connections; see [Redis].
const (
	stateConnection   = "state"
	queueConnection   = "queue"
	breakerConnection = "breaker"
)

// redisTimes takes the time of what one connection asks. The four histograms are
// looked up once: a request costs two readings of the clock and one sum more.
type redisTimes struct {
	command, script, pipeline, connect prometheus.Observer
}

func newRedisTimes(vec prometheus.ObserverVec, connection string) redisTimes {
	of := func(kind string) prometheus.Observer { return vec.WithLabelValues(connection, kind) }
	return redisTimes{command: of("command"), script: of("script"), pipeline: of("pipeline"), connect: of("connect")}
}

// DialHook implements redis.Hook.
func (t redisTimes) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer since(t.connect, time.Now())
		return next(ctx, network, addr)
	}
}

// ProcessHook implements redis.Hook.
func (t redisTimes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		kind := t.command
		if name := cmd.Name(); strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall") {
			kind = t.script
		}
		defer since(kind, time.Now())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t redisTimes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer since(t.pipeline, time.Now())
		return next(ctx, cmds)
	}
}

func since(o prometheus.Observer, start time.Time) { o.Observe(time.Since(start).Seconds()) }
