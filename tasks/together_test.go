package tasks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
)

// pipelines notes how many scripts pipelines have.
type pipelines []int

func (s *pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // else a connection begins
			*s = append(*s, len(cmds))
		}
		return next(ctx, cmds)
	}
}

// The first scripts of a crowd go in one pipeline, also where a member has none;
// each has its own reply, and later ones go alone.
func TestACrowdSendsTogether(t *testing.T) {
	r := newRig(t, batch.Options{})
	rdb := r.client(3)
	echo := redis.NewScript("if ARGV[1] == '7' then return redis.error_reply('seven') end return KEYS[1] .. ARGV[1]")
	if err := echo.Load(t.Context(), rdb).Err(); err != nil {
		t.Fatal(err)
	}
	var sent pipelines
	rdb.AddHook(&sent)
	got, errs := make([]string, 20), make([]error, 20)
	newTogether(rdb).do(t.Context(), 20, func(ctx context.Context, i int) {
		if i == 3 {
			return
		}
		got[i], errs[i] = echo.Run(ctx, newTogether(rdb), []string{"k"}, i).Text()
	})
	for i := range got {
		switch want := fmt.Sprint("k", i); {
		case i == 3:
		case i == 7:
			if errs[i] == nil {
				t.Error("the error of one is lost")
			}
		case got[i] != want || errs[i] != nil:
			t.Errorf("%q %v, want %q", got[i], errs[i], want)
		}
	}
	if !slices.Equal(sent, []int{19}) {
		t.Errorf("pipelines of %v scripts, want one of 19", sent)
	}
}

// Nobody waits for ever: not where no pipeline can be sent, and not for a member
// that ends without a word.
func TestACrowdEndsWhateverHappens(t *testing.T) {
	r := newRig(t, batch.Options{})
	rdb := newTogether(r.client(3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := make([]error, 20)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rdb.do(ctx, 20, func(ctx context.Context, i int) {
			if i == 3 {
				runtime.Goexit()
			}
			errs[i] = rdb.EvalSha(ctx, "0000", nil).Err()
		})
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("they still wait")
	}
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) && i != 3 {
			t.Errorf("member %d: %v, want that its context has ended", i, err)
		}
	}
}

// Where Redis has lost asynq's script, tasks are enqueued all the same, each once.
func TestEnqueueingManyWithoutTheScript(t *testing.T) {
	r := newRig(t, batch.Options{})
	q := newQueues(r.client(3))
	var refs []batch.Ref
	for i := range int64(enqueuePiece + 40) {
		refs = append(refs, batch.Ref{Batch: "b", Line: i + 1})
	}
	for range 2 { // the second time they are there
		if err := r.client(3).ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := q.enqueueAll(t.Context(), "q", refs); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, err := q.pending(t.Context(), "q"); n != len(refs) || err != nil {
		t.Errorf("%d pending (%v), want %d", n, err, len(refs))
	}
}
