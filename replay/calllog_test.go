package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/internal/redistest"
	"nightshift/ladder"
	"nightshift/provider"
)

// callOf is a call with a value in every field.
func callOf(line int64) ladder.CallEvent {
	return ladder.CallEvent{
		Purpose: ladder.ForLine, Key: breaker.Key{Provider: "cloud", Model: "cloud/large", Region: "east"}, Scope: breaker.ScopeModel,
		Call: provider.Call{
			Model: "cloud/large", Kind: provider.Unavailable, StartedAt: time.Date(2026, 11, 30, 22, 0, 0, 123_456_789, time.FixedZone("", 3600)),
			Detail: "SECRET detail", RequestID: "SECRET id", Cost: 1_250_000, Usage: provider.Usage{InputTokens: 7, CachedInputTokens: 3, OutputTokens: 5},
		},
		Latency: 1500 * time.Millisecond, FirstToken: 250 * time.Millisecond, StatusCode: 503, RetryAfter: 2 * time.Second,
		Queue: "overnight", Producer: "anna", Ladder: "nightly", Batch: "b1", Line: line, Generation: 2, Rung: 1,
	}
}

// running starts a log; the returned function ends it.
func running(t *testing.T, o LogOptions) (*Log, func()) {
	t.Helper()
	l, err := NewLog(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	var once sync.Once
	end := func() { once.Do(func() { cancel(); wg.Wait() }) }
	t.Cleanup(end)
	return l, end
}

func exported(t *testing.T, rdb redis.UniversalClient, since time.Time) (all []Record) {
	t.Helper()
	err := Export(t.Context(), rdb, Exporting{Since: since, Each: func(r Record) error { all = append(all, r); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCallAndDeferralInTheStream(t *testing.T) {
	rdb := redistest.Client(t)
	l, end := running(t, LogOptions{Redis: rdb, Keep: 1000, Worker: "w1"})
	l.Called(callOf(9))
	at := time.Date(2026, 11, 30, 21, 1, 0, 0, time.UTC)
	l.Postponed(ladder.DeferralEvent{
		At: at, Until: at.Add(time.Minute), Reason: ladder.ReasonBreaker, Model: "cloud/large",
		Queue: "overnight", Producer: "anna", Batch: "b1", Line: 9, Generation: 2,
	})
	end()
	want := []Record{{
		V: 1, Type: TypeCall, Time: time.Date(2026, 11, 30, 21, 0, 0, 123_000_000, time.UTC), Worker: "w1", Seq: 1,
		Queue: "overnight", Producer: "anna", Batch: "b1", Line: 9, Generation: 2, Ladder: "nightly", Rung: 1,
		Model: "cloud/large", Provider: "cloud", Region: "east", Purpose: ladder.ForLine, Kind: provider.Unavailable, Status: 503,
		LatencyMS: 1500, FirstTokenMS: 250, Input: 7, Cached: 3, Output: 5, Cost: 1_250_000,
		Breaker: breaker.HalfOpen, Probe: true, Scope: breaker.ScopeModel, RetryAfterMS: 2000,
	}, {
		V: 1, Type: TypeDeferral, Time: at, Worker: "w1", Seq: 2, Queue: "overnight", Producer: "anna", Batch: "b1", Line: 9, Generation: 2,
		Model: "cloud/large", Reason: "breaker_open", Until: at.Add(time.Minute),
	}}
	got := exported(t, rdb, time.Time{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	var read []Record
	r := NewReader(func(r *Record) error { read = append(read, *r); return nil })
	if err := r.Read("log", jsonl(t, got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	if n := len(exported(t, rdb, time.Now().Add(time.Hour))); n != 0 {
		t.Errorf("%d records since an hour from now", n)
	}
}

func jsonl(t *testing.T, all []Record) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range all {
		if err := enc.Encode(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

// TestEveryFieldIsInTheStream: who adds a field to Record adds it there too.
func TestEveryFieldIsInTheStream(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[Record]()
	if len(fields) != typ.NumField() {
		t.Errorf("a record has %d fields, its entry in the stream %d", typ.NumField(), len(fields))
	}
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "cost_usd" {
			name = "cost_nano_usd"
		}
		if _, ok := byName[name]; !ok {
			t.Errorf("%s is not in the stream", name)
		}
	}
}

// TestNothingOfContent: what a provider or a line says never reaches the log.
func TestNothingOfContent(t *testing.T) {
	rdb := redistest.Client(t)
	l, end := running(t, LogOptions{Redis: rdb, Keep: 1000, Worker: "w1", File: filepath.Join(t.TempDir(), "c.jsonl")})
	l.Called(callOf(1))
	end()
	text := jsonl(t, exported(t, rdb, time.Time{})).String()
	file, err := os.ReadFile(l.o.File)
	if err != nil {
		t.Fatal(err)
	}
	if text == "" || text != string(file) {
		t.Errorf("stream and file differ:\n%s\n%s", text, file)
	}
	if strings.Contains(text, "SECRET") {
		t.Errorf("content in the log: %s", text)
	}
}

func TestStreamIsCapped(t *testing.T) {
	rdb := redistest.Client(t)
	l, end := running(t, LogOptions{Redis: rdb, Keep: 500, Worker: "w1"})
	for i := range 5000 {
		l.Called(callOf(int64(i + 1)))
	}
	end()
	got := exported(t, rdb, time.Time{})
	if n := len(got); n < 500 || n > 1000 {
		t.Errorf("%d records are kept, not about 500", n)
	}
	if last := got[len(got)-1]; last.Line != 5000 {
		t.Errorf("the last record is of line %d", last.Line)
	}
}

// TestRedisIsAway: who calls does not wait, and what is missing is counted.
func TestRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	var log bytes.Buffer
	l, end := running(t, LogOptions{Redis: rdb, Keep: 100_000, Worker: "w1", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	server.Freeze(t)
	const n = 4 * logBuffer
	for i := range n {
		l.Called(callOf(int64(i + 1)))
	}
	dropped := l.Dropped()
	if dropped == 0 {
		t.Fatal("nothing was dropped: the buffer has no bound")
	}
	server.Thaw(t)
	deadline := time.Now().Add(20 * time.Second)
	for rdb.XLen(t.Context(), streamKey).Val() < n-l.Dropped() && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	end()
	calls, missing := map[int64]bool{}, int64(0)
	for _, r := range exported(t, rdb, time.Time{}) {
		if r.Type == TypeGap {
			missing += r.Dropped
		} else {
			calls[r.Seq] = true
		}
	}
	if missing == 0 || int64(len(calls))+missing != n {
		t.Errorf("%d calls in the log and %d missing by its gaps, of %d", len(calls), missing, n)
	}
}

// TestFollow: what is written while somebody follows comes.
func TestFollow(t *testing.T) {
	rdb := redistest.Client(t)
	l, _ := running(t, LogOptions{Redis: rdb, Keep: 1000, Worker: "w1"})
	l.Called(callOf(1))
	ctx, cancel := context.WithCancel(t.Context())
	var lines []int64
	err := Export(ctx, rdb, Exporting{Follow: true, Each: func(r Record) error {
		if lines = append(lines, r.Line); len(lines) == 3 {
			cancel()
		}
		return nil
	}, Idle: func() error {
		if n := int64(len(lines)); n > 0 {
			l.Called(callOf(n + 1))
		}
		return nil
	}})
	if err != nil || !reflect.DeepEqual(lines, []int64{1, 2, 3}) {
		t.Errorf("lines %v, error %v", lines, err)
	}
}

func TestFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	_, err := NewLog(LogOptions{File: filepath.Join(t.TempDir())})
	if err == nil || !strings.Contains(err.Error(), "call_log.file") {
		t.Errorf("error %v", err)
	}
}

// TestFileOfTheProcess: {pid} keeps the files of two workers apart.
func TestFileOfTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, end := running(t, LogOptions{File: filepath.Join(dir, "c-{pid}.jsonl"), Worker: "w1"})
	l.Called(callOf(1))
	end()
	if all, _ := filepath.Glob(filepath.Join(dir, "c-[0-9]*.jsonl")); len(all) != 1 {
		t.Errorf("files: %v", all)
	}
}
