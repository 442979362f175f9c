package tasks

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/redistest"
	"nightshift/internal/standby"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/provider"
)

// instant is a model that answers at once.
type instant struct{}

// Call implements ladder.Caller.
func (instant) Call(context.Context, provider.Request) (provider.Answer, error) {
	return provider.Answer{
		StatusCode: 200, RequestID: "r", FinishReason: "stop",
		Body:  json.RawMessage(`{"choices":[{"index":0,"message":{"role":"assistant","content":"an answer"},"finish_reason":"stop"}]}`),
		Usage: provider.Usage{InputTokens: 20, OutputTokens: 2},
	}, nil
}

// benchLadder is one rung of a model, behind guard, pace and breakers in Redis.
func benchLadder(b *testing.B, r *rig, counts *redistest.Trips, model ladder.Caller) *ladder.Ladder {
	rdb := r.client(3)
	rdb.AddHook(counts)
	l, err := ladder.New(ladder.Options{
		Ladder: config.Ladder{Name: "l", Rungs: []config.Rung{{Model: "sim/a", Tries: 1}}, Patience: 5 * time.Minute},
		Models: map[string]config.Model{"sim/a": {
			Key: "sim/a", Provider: "sim", Name: "a", Tier: "standard", Timeout: time.Minute, FirstToken: time.Minute,
		}},
		Callers: map[string]ladder.Caller{"sim/a": model},
		Gate:    benchGate(rdb),
	})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// benchGate is a gate as workers have it, with limits that are never reached. One
// without any would start slowly, which is not what is measured.
func benchGate(rdb redis.UniversalClient) *ladder.RedisGate {
	settings := func(breaker.Key) breaker.Settings { return breaker.Settings{}.WithDefaults() }
	limits := func(limit.Model) limit.Limits { return limit.Limits{RPM: 1_000_000} }
	guard := limit.NewGuardRedis(rdb, limit.GuardOptions{
		Limits: func(string) limit.GuardLimits { return limit.GuardLimits{Calls: 100 * benchLines} },
	})
	breakers, pace := breaker.NewRedis(rdb, settings), limit.NewRedis(rdb, limits)
	side := standby.New(standby.Options{Name: "bench"})
	return ladder.NewRedisGate(ladder.RedisGateOptions{
		Redis: rdb, Switch: side, Breakers: breakers, Pace: pace, Guard: guard,
		OwnBreakers: breaker.NewFallback(breakers, breaker.NewMemory(settings, nil), breaker.FallbackOptions{Switch: side}),
		OwnPace:     limit.NewFallback(pace, limit.NewMemory(limits, nil), limit.FallbackOptions{Switch: side}),
		OwnGuard:    limit.NewGuardFallback(guard, nil, limit.FallbackOptions{Switch: side}),
	})
}

// benchRun is what one run took: time, CPU of this process and of Redis in
// seconds, which say more than the time where others use the machine, and round
// trips to Redis.
type benchRun struct {
	began             time.Time
	took              time.Duration
	cpu, redis        float64
	trips, queueTrips int64
}

func startRun(b *testing.B, r *rig) benchRun {
	own, redis := cpu(b, r)
	return benchRun{began: time.Now(), cpu: own, redis: redis}
}

func (x benchRun) end(b *testing.B, r *rig) benchRun {
	took := time.Since(x.began)
	own, redis := cpu(b, r)
	return benchRun{took: took, cpu: own - x.cpu, redis: redis - x.redis}
}

func (x benchRun) plus(y benchRun) benchRun {
	return benchRun{
		took: x.took + y.took, cpu: x.cpu + y.cpu, redis: x.redis + y.redis,
		trips: x.trips + y.trips, queueTrips: x.queueTrips + y.queueTrips,
	}
}

var usedCPU = regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`)

// cpu is what this process and Redis used so far, in seconds.
func cpu(b *testing.B, r *rig) (own, redis float64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	own = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	info, err := r.redis.Client(b).Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range usedCPU.FindAllStringSubmatch(info, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		redis += v
	}
	return own, redis
}
