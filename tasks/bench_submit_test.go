package tasks

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
)

// BenchmarkSubmit validates lines and writes them to the backlog, and writes the
// same JSON by asynq's client with 64 goroutines, in turn, and compares time,
// processor time and Redis memory.
func BenchmarkSubmit(b *testing.B) {
	for _, c := range []struct {
		name    string
		content func() []byte
	}{
		{"1KiB", func() []byte { return file(benchLines, 1<<10) }},
		{"4KiB", func() []byte { return file(benchLines, 4<<10) }},
		{"4KiBHex", func() []byte { return prompted("", 4<<10, hexText) }},
		{"4KiBShared", func() []byte { return prompted(text(0, 3<<10), 1<<10, text) }},
	} {
		b.Run(c.name, func(b *testing.B) { benchSubmit(b, c.content()) })
	}
}

func benchSubmit(b *testing.B, content []byte) {
	r := newRig(b, batch.Options{})
	rdb, payloads := r.client(3), bytes.Split(bytes.TrimSpace(content), []byte{'\n'})
	var ours, theirs benchRun
	var ourBytes, theirBytes int64
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("s", i)
		before, watch := used(b, rdb), startRun(b, r)
		d := batch.Description{ID: id, Producer: "p", Queue: "q", CreatedAt: time.Now(), Again: true}
		if err := r.submitFile(d, content); err != nil {
			b.Fatal(err)
		}
		ours = ours.plus(watch.end(b, r))
		middle, watch := used(b, rdb), startRun(b, r)
		enqueueAll(b, rdb, id, func(n int) []byte { return payloads[n-1] }, benchLines)
		theirs = theirs.plus(watch.end(b, r))
		ourBytes, theirBytes = ourBytes+middle-before, theirBytes+used(b, rdb)-middle
		if err := rdb.FlushAll(context.Background()).Err(); err != nil {
			b.Fatal(err)
		}
	}
	n := float64(benchLines * b.N)
	b.ReportMetric(n/ours.took.Seconds(), "lines/s")
	b.ReportMetric(theirs.took.Seconds()/ours.took.Seconds(), "x_asynq_speed")
	b.ReportMetric(ours.cpu/n*1e6, "go_us/line")
	b.ReportMetric(ours.redis/n*1e6, "redis_us/line")
	b.ReportMetric(theirs.cpu/n*1e6, "asynq_go_us/task")
	b.ReportMetric(theirs.redis/n*1e6, "asynq_redis_us/task")
	b.ReportMetric(float64(ourBytes)/n, "redis_B/line")
	b.ReportMetric(float64(ourBytes)/float64(theirBytes), "of_asynq_bytes")
	b.ReportMetric(0, "ns/op")
}

// prompted is benchLines requests with a system prompt and a text of their own.
func prompted(system string, size int, own func(n int64, size int) string) []byte {
	var b bytes.Buffer
	for i := range int64(benchLines) {
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[`, i)
		if system != "" {
			fmt.Fprintf(&b, `{"role":"system","content":"%s"},`, system)
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%s"}]}}`+"\n", own(i+1, size-120))
	}
	return b.Bytes()
}

// text is words in a random order, in lines, which no other n has.
func text(n int64, size int) string {
	r := rand.New(rand.NewPCG(uint64(n), 0))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[r.IntN(len(words))])
		if r.IntN(12) == 0 {
			b.WriteString("\\n")
			continue
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// hexText is random hexadecimal digits: of them, half is all that can be saved.
func hexText(n int64, size int) string {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%016x", r.Uint64())
	}
	return b.String()
}

func used(b *testing.B, rdb redis.UniversalClient) int64 {
	info, err := rdb.Info(context.Background(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	n, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
