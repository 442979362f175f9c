package limit

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// BenchmarkGuard counts and settles calls, in memory and in Redis.
func BenchmarkGuard(b *testing.B) {
	o := GuardOptions{Limits: func(string) GuardLimits { return GuardLimits{Calls: 1 << 40, USD: 1 << 50} }}
	rdb := redistest.Client(b)
	for name, g := range map[string]Guarder{"memory": NewGuardMemory(o, time.Now), "redis": NewGuardRedis(rdb, o)} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				c := Charge{Producer: "ann", Batch: "b", Line: "b:1", Ticket: strconv.Itoa(i), USD: 1000}
				if err := g.Reserve(context.Background(), c); err != nil {
					b.Fatal(err)
				}
				if err := g.Settle(context.Background(), c, 900); err != nil {
					b.Fatal(err)
				}
			}
			if name == "redis" {
				stats, err := rdb.InfoMap(context.Background(), "commandstats").Result()
				if err != nil {
					b.Fatal(err)
				}
				_, rest, _ := strings.Cut(stats["Commandstats"]["cmdstat_evalsha"], "usec_per_call=")
				us, err := strconv.ParseFloat(strings.Split(rest, ",")[0], 64)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(us, "redis_us/script")
			}
		})
	}
}
