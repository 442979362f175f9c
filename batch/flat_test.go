package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// made is a file of n lines that is made while it is read.
type made struct {
	line, n int
	left    []byte
}

// Read implements io.Reader.
func (m *made) Read(p []byte) (int, error) {
	if len(m.left) == 0 {
		if m.line == m.n {
			return 0, io.EOF
		}
		m.line++
		m.left = fmt.Appendf(m.left, `{"id":"r%d","prompt":"What is written on page %d of the book that lies on the table of room %d?"}`+"\n",
			m.line, m.line*7919%100_003, m.line*104_729%1_000_003)
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

// putting counts the chunks that are written: what the script that adds them is
// given in bytes.
type putting struct {
	redis.Hook
	script string // its SHA-1
	chunks atomic.Int64
}

// DialHook implements redis.Hook.
func (p *putting) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (p *putting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		for i, arg := range args {
			if _, isChunk := arg.([]byte); isChunk && i > 1 && args[1] == p.script {
				p.chunks.Add(1)
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (p *putting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// peak returns the most that the heap grows over what it is now while do runs.
func peak(do func()) int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	start, most := m.HeapAlloc, m.HeapAlloc
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for tick := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick:
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	})
	do()
	close(done)
	watch.Wait()
	return int64(most - start)
}

// A file of a million lines: memory stays flat while it is read and written. It is
// interrupted at half; the next time only the rest is written.
func TestCase30_AMillionLinesInterruptedAtHalf(t *testing.T) {
	const lines = 1_000_000
	b := setup(t)
	put := &putting{script: b.scripts.put.Hash()}
	b.rdb.AddHook(put)
	chunks := func() int64 { return b.rdb.HLen(t.Context(), key("m", "chunks")).Val() }
	submit := func(ctx context.Context, progress func(int64)) error {
		src, err := OpenReader(&made{n: lines}, "m.jsonl")
		must(t, err)
		content, err := Pack(ctx, src)
		must(t, err)
		defer content.Close()
		return b.Redis.Submit(ctx, Description{ID: "m", Producer: "ann", Queue: "overnight"}, content, Submission{Progress: progress})
	}
	grown := peak(func() {
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		err := submit(ctx, func(n int64) {
			if n >= lines/2 {
				kill()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted with %v", err)
		}
	})
	half := chunks()
	put.chunks.Store(0)
	must(t, submit(t.Context(), nil))
	all := chunks()
	if half < all/2 || half > all*3/4 || put.chunks.Load() != all-half {
		t.Errorf("%d chunks at half, %d in all, %d written the second time", half, all, put.chunks.Load())
	}
	if st := b.status(t, "m"); st.Total != lines || st.Outstanding != lines || st.State != Running {
		t.Errorf("%+v", st)
	}
	t.Logf("the heap grew by %d MiB", grown>>20)
	if most := int64(64<<20 + 16*lines); grown > most {
		t.Errorf("the heap grew by %d bytes; %d bytes are for a million lines", grown, most)
	}
}
