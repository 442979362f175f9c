package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/internal/redistest"
	"nightshift/provider"
)

// BenchmarkFinished compares what stays in Redis of a finished line: of batches
// that the whole handler ran, everything (requests, index, records, their order),
// and of asynq tasks with retention that have the same requests as their payloads
// and wrote the same results.
func BenchmarkFinished(b *testing.B) {
	say := newSpeaker(b)
	for _, c := range []struct {
		name   string
		own    int // of the request's text, in bytes
		system int
	}{
		{"Question", 200, 0},
		{"1KiB", 900, 0},
		{"SharedPrompt", 400, 3 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			system := ""
			if c.system > 0 {
				system = say.text(0, c.system)
			}
			benchFinished(b, say, prompted(system, c.own+120, func(n int64, size int) string { return say.text(n, size) }))
		})
	}
}

func benchFinished(b *testing.B, say *speaker, content []byte) {
	r := newRig(b, batch.Options{})
	rdb, payloads := r.client(3), bytes.Split(bytes.TrimSpace(content), []byte{'\n'})
	var ours, theirs footprint
	var results int
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("f", i)
		before := used(b, rdb)
		finishOurs(b, r, say, id, content)
		ours.add(b, rdb, before)
		written := make(map[int64][]byte, benchLines)
		if _, err := r.store.Results(context.Background(), id, 0, func(rec batch.Record) error {
			written[rec.Line], results = rec.JSON, results+len(rec.JSON)
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		if len(written) != benchLines {
			b.Fatalf("%d of %d lines have a record", len(written), benchLines)
		}
		flush(b, rdb)
		before = used(b, rdb)
		finishTheirs(b, r, id, payloads, written)
		theirs.add(b, rdb, before)
		flush(b, rdb)
	}
	n := float64(benchLines * b.N)
	b.ReportMetric(float64(len(content))/benchLines, "request_B")
	b.ReportMetric(float64(results)/n, "result_B")
	b.ReportMetric(float64(ours.used)/n, "redis_B/line")
	b.ReportMetric(float64(ours.keys)/n, "keys_B/line")
	b.ReportMetric(float64(theirs.used)/n, "asynq_B/task")
	b.ReportMetric(float64(theirs.keys)/n, "asynq_keys_B/task")
	b.ReportMetric(float64(ours.used)/float64(theirs.used), "of_asynq_bytes")
	b.ReportMetric(0, "ns/op")
}

// finishOurs submits a batch and has a worker finish it.
func finishOurs(b *testing.B, r *rig, say *speaker, id string, content []byte) {
	d := batch.Description{ID: id, Producer: "p", Queue: "q", CreatedAt: time.Now(), Again: true}
	if err := r.submitFile(d, content); err != nil {
		b.Fatal(err)
	}
	o := r.options(nil)
	var trips redistest.Trips
	o.Queues[0].Slots, o.Queues[0].Ladder = serverSlots, benchLadder(b, r, &trips, say)
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	all := make(chan struct{})
	var ended atomic.Int64
	o.Observer = endings{&ended, all}
	w := NewWorker(o)
	if err := w.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	<-all
	if err := w.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// finishTheirs has asynq run the same requests, which write the results of a batch.
func finishTheirs(b *testing.B, r *rig, queue string, payloads [][]byte, results map[int64][]byte) {
	rdb := r.client(3)
	enqueueAll(b, rdb, queue, func(n int) []byte { return payloads[n-1] }, benchLines, asynq.Retention(24*time.Hour))
	var ended atomic.Int64
	all := make(chan struct{})
	s := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: serverSlots, Queues: map[string]int{queue: 1}, TaskCheckInterval: 100 * time.Millisecond, LogLevel: asynq.ErrorLevel,
	})
	var once sync.Once
	if err := s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var line int64
		if _, err := fmt.Sscanf(t.ResultWriter().TaskID(), queue+":%d", &line); err != nil {
			return err
		}
		_, err := t.ResultWriter().Write(results[line])
		if ended.Add(1) >= benchLines {
			once.Do(func() { close(all) })
		}
		return err
	})); err != nil {
		b.Fatal(err)
	}
	<-all
	s.Shutdown() // waits for what is under way
}

// footprint is what Redis holds: by its own count of used memory, and the sum of
// what it says of each key.
type footprint struct{ used, keys int64 }

func (f *footprint) add(b *testing.B, rdb redis.UniversalClient, before int64) {
	ctx := context.Background()
	f.used += used(b, rdb) - before
	keys := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		n, err := rdb.MemoryUsage(ctx, keys.Val(), 0).Result()
		if err != nil && err != redis.Nil {
			b.Fatal(err)
		}
		f.keys += n
	}
	if err := keys.Err(); err != nil {
		b.Fatal(err)
	}
}

func flush(b *testing.B, rdb redis.UniversalClient) {
	if err := rdb.FlushAll(context.Background()).Err(); err != nil {
		b.Fatal(err)
	}
}

// speaker is a model that answers at once with words of English in a random order,
// as often as each stands in the pages of docs/. An answer has 300 to 600 bytes of
// them, and around it what a chat completion of OpenAI's has.
type speaker struct {
	words []string
	calls atomic.Uint64
}

var word = regexp.MustCompile(`\b[A-Za-z']+[,.;:]?`)

func newSpeaker(b *testing.B) *speaker {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		b.Fatal("there are no pages to take words from", err)
	}
	var s speaker
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			b.Fatal(err)
		}
		s.words = append(s.words, word.FindAllString(string(text), -1)...)
	}
	return &s
}

// text is so many bytes of words, the same for the same n.
func (s *speaker) text(n int64, size int) string {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	var b []byte
	for len(b) < size {
		b = append(append(b, s.words[r.IntN(len(s.words))]...), ' ')
	}
	return string(b[:size])
}

// Call implements ladder.Caller.
func (s *speaker) Call(context.Context, provider.Request) (provider.Answer, error) {
	n := s.calls.Add(1)
	r := rand.New(rand.NewPCG(n, 3))
	said := s.text(int64(n)+1<<40, 300+r.IntN(300))
	in, out := 100+r.IntN(400), len(said)/4
	return provider.Answer{
		StatusCode: 200, RequestID: fmt.Sprintf("req_%016x%016x", r.Uint64(), r.Uint64()), FinishReason: "stop",
		Body: json.RawMessage(fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion","created":%d,"model":"gpt-4o-mini-2024-07-18",`+
			`"choices":[{"index":0,"message":{"role":"assistant","content":"%s","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},`+
			`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},`+
			`"service_tier":"default","system_fingerprint":"fp_560af6e559"}`, alphanumeric(r, 29), time.Now().Unix(), said, in, out, in+out)),
		Usage: provider.Usage{InputTokens: int64(in), OutputTokens: int64(out)},
	}, nil
}

func alphanumeric(r *rand.Rand, n int) string {
	const of = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	b := make([]byte, n)
	for i := range b {
		b[i] = of[r.IntN(len(of))]
	}
	return string(b)
}
