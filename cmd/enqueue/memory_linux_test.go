package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// memoryBound is the memory that a submission may take, in bytes: what issue 6
// and docs/batches.md promise.
func memoryBound(lines, longest int64) int64 { return 64e6 + 16*lines + 4*longest }

// submission is `enqueue batch` as a process of its own, before a Redis.
type submission struct {
	bin, dir string
	redis    *redistest.Server
	rdb      *redis.Client
}

func newSubmission(tb testing.TB) *submission {
	s := &submission{bin: filepath.Join(build(tb, "enqueue"), "enqueue"), dir: tb.TempDir(), redis: redistest.Start(tb)}
	s.rdb = s.redis.Client(tb)
	config := "providers: {p: {base_url: 'http://127.0.0.1:1/v1'}}\nmodels: {p/gpt-4o: {}}\n" +
		"ladders: {l: {rungs: [{model: p/gpt-4o}]}}\nqueues: {q: {ladder: l}}\nguard: {calls_per_hour: 0}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "nightshift.yaml"), []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

// file writes lines of about so many bytes, of text that no other line has, and
// returns its name and its longest line.
func (s *submission) file(tb testing.TB, lines, size int) (name string, longest int64) {
	tb.Helper()
	name = filepath.Join(s.dir, fmt.Sprintf("%d-%d.jsonl", lines, size))
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	words := strings.Fields("the night shift writes a summary of every ticket that came in today and asks for more details where a customer's order is late, broken or lost")
	w, random := bufio.NewWriterSize(f, 1<<20), rand.New(rand.NewPCG(1, uint64(size)))
	for i := range lines {
		n, _ := fmt.Fprintf(w, `{"custom_id":"request-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"`, i)
		for n < size-40 {
			k, _ := w.WriteString(words[random.IntN(len(words))])
			_ = w.WriteByte(' ')
			n += k + 1
		}
		k, _ := w.WriteString(`"}],"max_tokens":500}}` + "\n")
		longest = max(longest, int64(n+k-1))
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return name, longest
}

// peak submits a file and returns the most that the process had in memory, in
// bytes, its program's pages included: VmHWM. What wait4 says of a child is no less
// than what its parent had, whose memory it shares until it is another program.
func (s *submission) peak(tb testing.TB, file string, lines int) (most int64) {
	tb.Helper()
	var said strings.Builder
	cmd := exec.Command(s.bin, "batch", "--again", file, "--redis", s.redis.URL())
	cmd.Dir, cmd.Stderr = s.dir, &said
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.Tick(5 * time.Millisecond); ; {
		select {
		case <-tick:
			most = max(most, highWater(cmd.Process.Pid))
			continue
		case err := <-ended:
			if err != nil {
				tb.Fatalf("%v\n%s", err, said.String())
			}
		}
		break
	}
	var total int64
	keys, err := s.rdb.Keys(context.Background(), "nightshift:{b:*}:meta").Result()
	for _, k := range keys {
		n, err := s.rdb.HGet(context.Background(), k, "total").Int64()
		if total += n; err != nil {
			tb.Fatal(err)
		}
	}
	if err != nil || total != int64(lines) {
		tb.Fatalf("%d lines are there of %d, %v", total, lines, err)
	}
	if err := s.rdb.FlushAll(context.Background()).Err(); err != nil {
		tb.Fatal(err)
	}
	return most
}

var highWaterLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// highWater is the most that a process had in memory so far; 0: it has ended.
func highWater(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if found := highWaterLine.FindSubmatch(text); found != nil {
		kb, _ := strconv.ParseInt(string(found[1]), 10, 64)
		return kb << 10
	}
	return 0
}

// TestMemoryOfASubmission holds 100,000 lines, and three of 16 MiB, to the bound.
func TestMemoryOfASubmission(t *testing.T) {
	s := newSubmission(t)
	for _, c := range []struct{ lines, size int }{{100_000, 1 << 10}, {3, 16 << 20}} {
		file, longest := s.file(t, c.lines, c.size)
		got, bound := s.peak(t, file, c.lines), memoryBound(int64(c.lines), longest)
		t.Logf("%d lines of %d bytes: %.1f MB, the bound is %.1f MB", c.lines, longest, float64(got)/1e6, float64(bound)/1e6)
		if got > bound || got < 10e6 {
			t.Errorf("%d lines of %d bytes took %d bytes of memory; %d are allowed", c.lines, longest, got, bound)
		}
	}
}

// BenchmarkBatchMemory tells the most memory that `enqueue batch` has while it
// submits a file, beside its bound.
func BenchmarkBatchMemory(b *testing.B) {
	for _, c := range []struct {
		name        string
		lines, size int
	}{{"100000Lines", 100_000, 1 << 10}, {"1000000Lines", 1_000_000, 1 << 10}, {"16MiBLines", 6, 16 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			needsMemory(b, 2<<30)
			s := newSubmission(b)
			file, longest := s.file(b, c.lines, c.size)
			var most int64
			for b.Loop() {
				most = max(most, s.peak(b, file, c.lines))
			}
			b.ReportMetric(float64(most)/1e6, "peak_MB")
			b.ReportMetric(float64(memoryBound(int64(c.lines), longest))/1e6, "bound_MB")
			b.ReportMetric(float64(c.lines*b.N)/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

var availableLine = regexp.MustCompile(`(?m)^MemAvailable:\s+(\d+) kB$`)

// needsMemory fails where the machine has not the memory for Redis.
func needsMemory(tb testing.TB, need int64) {
	tb.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		tb.Fatal(err)
	}
	if found := availableLine.FindSubmatch(text); found != nil {
		if kb, _ := strconv.ParseInt(string(found[1]), 10, 64); kb<<10 < need {
			tb.Fatalf("%d MiB of memory are available, Redis may need %d", kb>>10, need>>20)
		}
	}
}
