package ladder

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"nightshift/breaker"
	"nightshift/internal/redistest"
)

// sample is a call as data.
type sampled struct {
	OK      bool
	Latency time.Duration
	Later   time.Duration
}

var genSamples = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sampled {
	return sampled{
		OK:      rapid.Bool().Draw(t, "ok"),
		Latency: time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond,
		Later:   time.Duration(rapid.IntRange(-500, 5_000).Draw(t, "later")) * time.Millisecond,
	}
}), 0, 40)

// Wherever the samples are cut and by whom they are taken, they come to the
// same averages as one process's.
func TestAveragesCompose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := genSamples.Draw(t, "samples")
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		now := epoch
		var whole, first, second Averages
		for i, s := range all {
			now = now.Add(s.Later)
			whole.add(s.OK, s.Latency, now)
			part := &first
			if i >= cut {
				part = &second
			}
			part.add(s.OK, s.Latency, now)
		}
		if got := first.then(second); !alike(got, whole, 0) {
			t.Fatalf("composed %+v, in one %+v", got, whole)
		}
		if m := whole.Success.mean(1); m < 0 || m > 1+1e-9 {
			t.Fatalf("success %v", m)
		}
	})
}

func alike(a, b Averages, apart time.Duration) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-6*max(1, math.Abs(x)) }
	return near(a.Success.Sum, b.Success.Sum) && near(a.Success.Weight, b.Success.Weight) &&
		near(a.Latency.Sum, b.Latency.Sum) && near(a.Latency.Weight, b.Latency.Weight) && a.At.Sub(b.At).Abs() <= apart
}

func TestABadRateIsForgivenWithTime(t *testing.T) {
	var a Averages
	same(t, "never called", a.success(epoch), 1)
	for range 30 {
		a.add(false, 0, epoch)
	}
	if s := a.success(epoch); s > 0.01 {
		t.Errorf("after 30 failures success is %v", s)
	}
	if s := a.success(epoch.Add(2 * forget)); math.Abs(s-0.75) > 0.01 {
		t.Errorf("after two half-lives success is %v", s)
	}
	if s := a.success(epoch.Add(1000 * time.Hour)); s < 0.99 {
		t.Errorf("after a long time success is %v", s)
	}
}

// agree drives the script and Averages.then over the same samples.
func agree(ctx context.Context, s *RedisAverages, key breaker.Key, parts [][]sampled) string {
	now, want := epoch, Averages{}
	s.now = func() time.Time { return now }
	s.clock = func() string { return strconv.FormatInt(now.UnixMilli(), 10) }
	for i, part := range parts {
		var samples Averages
		for _, x := range part {
			now = now.Add(max(x.Later, 0))
			samples.add(x.OK, x.Latency, now)
		}
		now = now.Add(time.Second)
		want = want.then(samples)
		got, err := s.Merge(ctx, []breaker.Key{key}, []Averages{samples})
		switch {
		case err != nil:
			return err.Error()
		case !alike(got[0], want, 0):
			return "part " + strconv.Itoa(i) + " differs"
		}
	}
	return ""
}

func TestScriptAgreesWithAverages(t *testing.T) {
	store := NewRedisAverages(redistest.Client(t))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		key := breaker.Key{Provider: "p", Model: "p/" + strconv.Itoa(n)}
		if why := agree(context.Background(), store, key, rapid.SliceOfN(genSamples, 1, 5).Draw(t, "parts")); why != "" {
			t.Fatal(why)
		}
	})
}

func TestEveryMutationOfTheAveragesScriptIsNoticed(t *testing.T) {
	rdb := redistest.Client(t)
	for name, m := range map[string]struct{ old, broken string }{
		"what went before is kept whole":     {"x[i] * left + sample[i], ", "x[i] + sample[i], "},
		"its weight is kept whole":           {"x[i + 1] * left", "x[i + 1]"},
		"the latency is not taken":           {"for i = 1, 3, 2 do", "for i = 1, 1 do"},
		"nothing is written":                 {"redis.call('HSET', averages, unpack(args))", ""},
		"the last sample is taken as of now": {"now - tonumber(ARGV[6])", "now"},
		"the age is lost":                    {"math.max(now - at, 0)", "0"},
		"a later sample does not count":      {"last > at", "last < at"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(averagesLua, m.old) != 1 {
				t.Fatalf("the script does not hold exactly one %q", m.old)
			}
			broken := NewRedisAverages(rdb)
			broken.script = redis.NewScript(strings.Replace(averagesLua, m.old, m.broken, 1))
			for seed := range 50 {
				key := breaker.Key{Provider: "p", Model: name + strconv.Itoa(seed)}
				if agree(t.Context(), broken, key, rapid.SliceOfN(genSamples, 2, 4).Example(seed)) != "" {
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
