package breaker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"nightshift/internal/redistest"
)

// contestant is one way to guard a call that succeeds at once.
type contestant struct {
	name string
	call func() error
}

// compare runs the contestants in turn, a batch each, and reports the median
// time a call of each and how many times the first one's the others take. In
// turn, because a busy machine then slows all of them alike.
func compare(b *testing.B, batch int, all ...contestant) {
	times := make([][]time.Duration, len(all))
	for b.Loop() {
		for i, c := range all {
			start := time.Now()
			for range batch {
				if err := c.call(); err != nil {
					b.Fatalf("%s: %v", c.name, err)
				}
			}
			times[i] = append(times[i], time.Since(start)/time.Duration(batch))
		}
	}
	median := func(i int) float64 {
		slices.Sort(times[i])
		return float64(times[i][len(times[i])/2])
	}
	ours := median(0)
	b.ReportMetric(ours, all[0].name+"-ns")
	for i, c := range all[1:] {
		b.ReportMetric(median(i+1)/ours, c.name+"-x")
	}
}

// ours guards a call by a store.
func ours(name string, s Store) contestant {
	key := Key{Provider: "openai", Model: "openai/gpt-4o"}
	return contestant{name, func() error {
		t, err := s.Admit(context.Background(), key)
		if err != nil {
			return err
		}
		return s.Report(context.Background(), t, Report{Outcome: Success})
	}}
}

func fixed(s Settings) func(Key) Settings {
	s = s.WithDefaults()
	return func(Key) Settings { return s }
}

func BenchmarkCompareMemory(b *testing.B) {
	sony := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{})
	safe := circuitbreaker.NewBuilder[any]().WithFailureThresholdRatio(11, 20).Build()
	compare(b, 1000,
		ours("memory", NewMemory(fixed(Settings{}), nil)),
		contestant{"gobreaker", func() error {
			_, err := sony.Execute(func() (int, error) { return 0, nil })
			return err
		}},
		contestant{"failsafe", func() error {
			if !safe.TryAcquirePermit() {
				return circuitbreaker.ErrOpen
			}
			safe.RecordSuccess()
			return nil
		}})
}

// BenchmarkCompareMemoryBusy is the same with eight goroutines at once.
func BenchmarkCompareMemoryBusy(b *testing.B) {
	sony := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{})
	compare(b, 1,
		eight(ours("memory", NewMemory(fixed(Settings{}), nil))),
		eight(contestant{"gobreaker", func() error {
			_, err := sony.Execute(func() (int, error) { return 0, nil })
			return err
		}}))
}

// eight makes 8000 calls at once of one, by eight goroutines.
func eight(c contestant) contestant {
	return contestant{c.name, func() error {
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				var err error
				for i := 0; i < 1000 && err == nil; i++ {
					err = c.call()
				}
				errs <- err
			}()
		}
		var all error
		for range cap(errs) {
			all = errors.Join(all, <-errs)
		}
		return all
	}}
}

// BenchmarkCompareRedis sets two PINGs, the round trips that a call has here,
// and gobreaker's distributed breaker beside ours, all on one server.
func BenchmarkCompareRedis(b *testing.B) {
	rdb := redistest.Client(b)
	sony, err := gobreaker.NewDistributedCircuitBreaker[int](sharedData{rdb}, gobreaker.Settings{Name: "x"})
	if err != nil {
		b.Fatal(err)
	}
	compare(b, 1,
		ours("redis", NewRedis(rdb, fixed(Settings{}))),
		contestant{"two-PINGs", func() error {
			for range 2 {
				if err := rdb.Ping(context.Background()).Err(); err != nil {
					return err
				}
			}
			return nil
		}},
		contestant{"gobreaker", func() error {
			_, err := sony.Execute(func() (int, error) { return 0, nil })
			return err
		}})
	reportServer(b, rdb)
}

// reportServer reports what the server spent on a script, in µs, and what the
// two records of a breaker in use take, in bytes.
func reportServer(b *testing.B, rdb *redis.Client) {
	ctx := context.Background()
	k := Key{Provider: "openai", Model: "openai/gpt-4o"}
	for name, key := range map[string]string{"model-B": breakerKey(k), "parent-B": breakerKey(k.Parent())} {
		n, err := rdb.MemoryUsage(ctx, key).Result()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n), name)
	}
	stats, err := rdb.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(usecPerCall(stats["Commandstats"]["cmdstat_evalsha"]), "server-µs/script")
}

// sharedData is gobreaker's view of Redis, one command a question.
type sharedData struct{ rdb *redis.Client }

func (s sharedData) Lock(name string) error {
	for {
		ok, err := s.rdb.SetNX(context.Background(), "lock:"+name, 1, 5*time.Second).Result()
		if ok || err != nil {
			return err
		}
	}
}

func (s sharedData) Unlock(name string) error {
	return s.rdb.Del(context.Background(), "lock:"+name).Err()
}

func (s sharedData) GetData(name string) ([]byte, error) {
	return s.rdb.Get(context.Background(), name).Bytes()
}

func (s sharedData) SetData(name string, data []byte) error {
	return s.rdb.Set(context.Background(), name, data, 0).Err()
}

// usecPerCall reads "calls=1,usec=2,usec_per_call=2.00,...".
func usecPerCall(stat string) float64 {
	for part := range strings.SplitSeq(stat, ",") {
		if v, ok := strings.CutPrefix(part, "usec_per_call="); ok {
			f, _ := strconv.ParseFloat(v, 64)
			return f
		}
	}
	return 0
}
