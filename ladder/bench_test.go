package ladder

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

// caller makes one call and returns when its answer is whole.
type caller struct {
	name string
	call func() error
}

// ours is a ladder of one rung over the real adapter, with breakers in memory.
func ours(b *testing.B, base string) caller {
	adapter := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: base})
	b.Cleanup(adapter.Close)
	m := config.Model{
		Key: "p/a", Provider: "p", Name: "a", Tier: "premium",
		Timeout: 10 * time.Minute, FirstToken: 5 * time.Minute, Idle: 5 * time.Minute,
	}
	settings := breaker.Settings{}.WithDefaults()
	l, err := New(Options{
		Ladder: config.Ladder{Name: "nightly", Rungs: []config.Rung{{Model: "p/a", Tries: 1}}},
		Models: map[string]config.Model{"p/a": m}, Callers: map[string]Caller{"p/a": adapter},
		Gate: StoreGate{
			Breakers: breaker.NewMemory(func(breaker.Key) breaker.Settings { return settings }, nil),
			Pacer:    limit.NewMemory(nil, nil), Guard: &fakeGuard{out: map[string]limit.Charge{}},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	r := line()
	r.Body = []byte(benchBody)
	return caller{"ladder", func() error {
		out := l.whole(context.Background(), r, &fakeJournal{})
		if out.End != Answered || len(out.Answer.Response.Body) < 5*benchWords || out.Answer.Usage.OutputTokens != benchWords {
			return fmt.Errorf("ended in %d: %s %s", out.End, out.Message, out.Answer.Response.Body)
		}
		return nil
	}}
}

// bare posts the same body with net/http alone and reads what comes.
func bare(b *testing.B, base string) caller {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
	b.Cleanup(client.CloseIdleConnections)
	return caller{"bare", func() error {
		res, err := client.Post(base+"/chat/completions", "application/json", strings.NewReader(benchBody))
		if err != nil {
			return err
		}
		return drainAll(res.Body)
	}}
}

// BenchmarkCall reports what a call through ladder and adapter costs beside a
// bare net/http client: the medians of time and allocations of each, in turn, so
// that a busy machine slows both alike.
func BenchmarkCall(b *testing.B) {
	head, rest := streamReply()
	for _, bc := range []struct{ name, head, rest string }{{"plain", plainReply(), ""}, {"streamed", head, rest}} {
		b.Run(bc.name, func(b *testing.B) {
			s := newInstant(b, bc.head, bc.rest, nil)
			compare(b, ours(b, s.url), bare(b, s.url))
		})
	}
}

func compare(b *testing.B, all ...caller) {
	const batch = 20
	times, allocs, sizes := make([][]float64, len(all)), make([][]float64, len(all)), make([][]float64, len(all))
	var before, after runtime.MemStats
	for b.Loop() {
		for i, c := range all {
			runtime.ReadMemStats(&before)
			start := time.Now()
			for range batch {
				if err := c.call(); err != nil {
					b.Fatalf("%s: %v", c.name, err)
				}
			}
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			times[i] = append(times[i], float64(took)/batch)
			allocs[i] = append(allocs[i], float64(after.Mallocs-before.Mallocs)/batch)
			sizes[i] = append(sizes[i], float64(after.TotalAlloc-before.TotalAlloc)/batch)
		}
	}
	for i, c := range all {
		b.ReportMetric(median(times[i]), c.name+"-ns")
		b.ReportMetric(median(allocs[i]), c.name+"-allocs")
		b.ReportMetric(median(sizes[i]), c.name+"-B")
	}
	b.ReportMetric(median(times[0])-median(times[1]), "more-ns")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkCallsInFlight holds 1,000 streamed calls after their first token and
// reports what each takes of heap and stacks, through the ladder and with a bare
// client. The server's side of the connection is in both.
func BenchmarkCallsInFlight(b *testing.B) {
	used := map[string][]float64{}
	for b.Loop() {
		for _, client := range []func(*testing.B, string) caller{ours, bare} {
			name, bytes := inFlight(b, client)
			used[name] = append(used[name], bytes)
		}
	}
	b.ReportMetric(0, "ns/op") // says nothing: the calls are held
	for name, all := range used {
		b.ReportMetric(median(all), name+"-B/call")
	}
}

// inFlight returns what one of 1,000 held calls takes, in bytes.
func inFlight(b *testing.B, client func(*testing.B, string) caller) (name string, bytes float64) {
	const n = 1000
	head, rest := streamReply()
	hold := make(chan struct{})
	s := newInstant(b, head, rest, hold)
	c := client(b, s.url)
	before := memory()
	var calls sync.WaitGroup
	failed := make(chan error, n)
	for range n {
		calls.Go(func() { failed <- c.call() })
	}
	for range n {
		select {
		case <-s.held:
		case err := <-failed:
			b.Fatalf("%s: a call ended that should be held: %v", c.name, err)
		}
	}
	used := memory() - before
	close(hold)
	calls.Wait()
	for range n {
		if err := <-failed; err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
	}
	return c.name, used / n
}

// memory is what heap and stacks take after a collection.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what the first one moved to pools' victims goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
