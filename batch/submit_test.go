package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// submitPart submits a text and is killed when a part of it is written.
func (b *bundle) submitPart(tb testing.TB, d Description, text string) {
	tb.Helper()
	ctx, kill := context.WithCancel(tb.Context())
	defer kill()
	err := b.Submit(ctx, d, reader(tb, text), func(int64) { kill() })
	if !errors.Is(err, context.Canceled) {
		tb.Fatal(err)
	}
}

// drain releases a whole batch and returns the lines in order.
func drain(tb testing.TB, b *bundle, id string) (lines []int64) {
	tb.Helper()
	for {
		refs := b.release(tb, id, 1000)
		if len(refs) == 0 {
			return lines
		}
		for _, r := range refs {
			lines = append(lines, r.Line)
		}
	}
}

// wide is n lines that do not compress, so that a group holds few chunks.
func wide(n int) string {
	var b strings.Builder
	for i := range n {
		var noise strings.Builder
		for j := range 200 {
			fmt.Fprintf(&noise, "%x", LineDigest(fmt.Append(nil, i, j)))
		}
		fmt.Fprintf(&b, `{"id":"r%d","prompt":"%s"}`+"\n", i+1, noise.String())
	}
	return b.String()
}

func TestCase39_InterruptedSubmission(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	text := wide(1000)
	d := describe(t, "b", text)
	b.submitPart(t, d, text)
	before, err := b.rdb.HLen(ctx, key("b", "chunks")).Result()
	if err != nil || before == 0 || before >= 20 {
		t.Fatalf("%d chunks stand, %v; the test needs some", before, err)
	}
	if bs, err := b.Backlogs(ctx); err != nil || len(bs) != 0 {
		t.Fatalf("the keeper sees %+v, %v", bs, err)
	}
	if st := b.status(t, "b"); st.State != Enqueuing || st.Outstanding != 1000 {
		t.Fatalf("%+v", st)
	}
	if refs := b.release(t, "b", 10); len(refs) > 0 {
		t.Fatalf("released %v", refs)
	}
	if err := b.commit(ctx, d, int(before)); err == nil {
		t.Fatal("a part of the backlog is committed")
	}
	var written []int64
	must(t, b.Submit(ctx, d, reader(t, text), func(n int64) { written = append(written, n) }))
	if written[0] < before*40 /* such lines fill a chunk */ || written[len(written)-1] != 1000 {
		t.Fatalf("progress %v does not go on from %d chunks", written, before)
	}
	must(t, b.Submit(ctx, d, reader(t, text), nil)) // and once more
	if lines := drain(t, b, "b"); len(lines) != 1000 || lines[0] != 1 || lines[999] != 1000 {
		t.Fatalf("%d lines", len(lines))
	}
	must(t, b.Submit(ctx, d, reader(t, text), nil)) // when it runs
	if st := b.status(t, "b"); st.Total != 1000 {
		t.Fatalf("%+v", st)
	}
}

func TestCase39_TwoSubmitTheSame(t *testing.T) {
	b := setup(t)
	text := wide(800)
	d := describe(t, "b", text)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := on(b.rdb).Submit(t.Context(), d, reader(t, text), nil); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if lines := drain(t, b, "b"); len(lines) != 800 {
		t.Fatalf("%d lines", len(lines))
	}
}

func TestCase39_CancelledWhileItIsWritten(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	text := wide(1000)
	d := describe(t, "b", text)
	b.submitPart(t, d, text)
	must(t, b.Cancel(ctx, "b"))
	if err := b.Submit(ctx, d, reader(t, text), nil); !errors.Is(err, ErrCancelled) {
		t.Fatal(err)
	}
	n, err := b.End(ctx, "b", 1, Cancelled, 10_000)
	must(t, err)
	if st := b.status(t, "b"); st.State != Done || st.Cancelled != int64(n) || n == 0 {
		t.Fatalf("ended %d: %+v", n, st)
	}
}

// Of a batch that is submitted, what is there stays as it is and nothing is added.
func TestPutAfterTheCommit(t *testing.T) {
	b := setup(t)
	text := wide(100)
	d := b.submit(t, "b", text)
	content, err := Pack(t.Context(), reader(t, text))
	must(t, err)
	defer content.Close()
	var all group
	must(t, content.each(func(c packedChunk) error {
		all.add(c, bytes.Clone(c.packed))
		return nil
	}))
	must(t, b.put(t.Context(), d, all.args))
	before := b.rdb.HGetAll(t.Context(), key("b", "chunks")).Val()
	must(t, b.rdb.HDel(t.Context(), key("b", "chunks"), "0").Err())
	delete(before, "0")
	if err := b.put(t.Context(), d, all.args); !errors.Is(err, ErrNotFound) {
		t.Errorf("a chunk that is gone: %v", err)
	}
	if diff := cmp.Diff(before, b.rdb.HGetAll(t.Context(), key("b", "chunks")).Val()); diff != "" {
		t.Error(diff)
	}
	if st := b.status(t, "b"); st.Total != 100 || st.Outstanding != 100 {
		t.Errorf("%+v", st)
	}
}

func TestCase39_CancelledBetweenTwoChunks(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	text := wide(1500)
	var once sync.Once
	var before int64
	err := b.Submit(ctx, describe(t, "b", text), reader(t, text), func(int64) {
		once.Do(func() {
			must(t, b.Cancel(ctx, "b"))
			before = b.rdb.HLen(ctx, key("b", "chunks")).Val()
		})
	})
	if !errors.Is(err, ErrCancelled) {
		t.Fatal(err)
	}
	_, err = b.End(ctx, "b", 1, Cancelled, 10_000)
	must(t, err)
	st := b.status(t, "b")
	chunks, err := b.rdb.HLen(ctx, key("b", "chunks")).Result()
	if err != nil || chunks == 0 || chunks != before {
		t.Fatalf("%d chunks when it was cancelled, then %d, %v", before, chunks, err)
	}
	if n := len(b.records(t, "b")); st.State != Done || n == 0 || st.Cancelled != int64(n) {
		t.Fatalf("%d records: %+v", n, st)
	}
}

// The same lines for another ladder start elsewhere: what is written is not mixed.
func TestSubmit_CutDifferently(t *testing.T) {
	b := setup(t)
	text := strings.NewReplacer(
		`{"id":`, `{"custom_id":`, `"prompt":"`, `"method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":["`, `"}`, `"]}}`,
	).Replace(wide(1000))
	d := describe(t, "b", text)
	b.submitPart(t, d, text)
	before := b.rdb.HGetAll(t.Context(), metaKey("b")).Val()
	r := reader(t, text)
	r.Rung = func(string) (int, bool) { return 1, true }
	if err := b.Submit(t.Context(), d, r, nil); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "cut differently") {
		t.Fatal(err)
	}
	if after := b.rdb.HGetAll(t.Context(), metaKey("b")).Val(); !maps.Equal(before, after) {
		t.Errorf("%v, then %v", before, after)
	}
	var gr group // behind such a chunk, nothing is added
	gr.add(packedChunk{number: 0, first: 1, entry: "0 1:1:1", classes: []classCount{{1, 1}}}, []byte("x"))
	gr.add(packedChunk{number: 999, first: 2000, entry: "999 2000:1:1", classes: []classCount{{1, 1}}}, []byte("x"))
	if err := b.put(t.Context(), d, gr.args); !errors.Is(err, ErrExists) || b.rdb.HExists(t.Context(), key("b", "chunks"), "999").Val() {
		t.Errorf("added behind it, or %v", err)
	}
}

func TestSubmit_SameContentAndID(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	d := b.submit(t, "a", jsonl(3))
	other := describe(t, "a", jsonl(4))
	if err := b.Submit(ctx, other, reader(t, jsonl(4)), nil); !errors.Is(err, ErrExists) {
		t.Errorf("other content under the ID: %v", err)
	}
	d.ID = "b"
	err := b.Submit(ctx, d, reader(t, jsonl(3)), nil)
	var dup *DuplicateError
	if !errors.Is(err, ErrDuplicate) || !errors.As(err, &dup) || dup.ID != "a" || !dup.At.Equal(b.clock.t) {
		t.Errorf("same content: %v", err)
	}
	if _, err := b.Status(ctx, "b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the refused batch exists: %v", err)
	}
	d.Again = true
	must(t, b.Submit(ctx, d, reader(t, jsonl(3)), nil))
	b.clock.step(24 * time.Hour)
	d.ID, d.Again = "c", false
	must(t, b.Submit(ctx, d, reader(t, jsonl(3)), nil))
	all, err := b.List(ctx)
	must(t, err)
	if len(all) != 3 || all[0].ID != "c" {
		t.Errorf("list %+v", all)
	}
}

func TestSubmit_RefusesWhatIsNoID(t *testing.T) {
	b := setup(t)
	d := describe(t, "a", jsonl(3))
	for _, id := range []string{"", "a b", "{a}", "a:b", "-a", strings.Repeat("a", 129)} {
		d.ID = id
		if err := b.Submit(t.Context(), d, reader(t, jsonl(3)), nil); err == nil {
			t.Errorf("ID %q is accepted", id)
		}
	}
}

func TestCase32_ContentComesBackByteForByte(t *testing.T) {
	b := setup(t)
	body := `{ "messages" : [ {"role":"user","content":"<é> \u0041 ` + strings.Repeat("x", 5<<20) + `"} ] , "seed":1.0 }`
	long := `{"custom_id":"long","method":"POST","url":"/v1/chat/completions","body":` + body + `}`
	text := "\ufeff" + openAI("a") + "\r\n\r\n" + long + "\r\n" + `{"id":"s","prompt":"q","metadata":{"k": 1}}`
	b.submit(t, "b", text)
	refs := b.release(t, "b", 10)
	var numbers []int64
	for _, r := range refs {
		numbers = append(numbers, r.Line)
	}
	if diff := cmp.Diff([]int64{1, 3, 4}, numbers); diff != "" {
		t.Fatal(diff)
	}
	want, _ := readAll(t, reader(t, text))
	for i, ref := range refs {
		want[i].Model = "" // it is not kept
		if got := b.begin(t, ref, "t", Granted).Line; !reflect.DeepEqual(got, want[i]) {
			t.Errorf("begin %s: %.300s", ref, got.Body)
		}
		got, err := b.Request(t.Context(), ref)
		must(t, err)
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("request %s: %.300s", ref, got.Body)
		}
	}
	if string(want[1].Body) != body {
		t.Error("the body changed")
	}
	for _, ref := range []Ref{{"b", 2, 0}, {"b", 5, 0}, {"b", 0, 0}, {"none", 1, 0}} {
		if _, err := b.Request(t.Context(), ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("request %s: %v", ref, err)
		}
	}
}

func TestCase45_SameIDsInTwoBatches(t *testing.T) {
	b := setup(t)
	b.submit(t, "a", `{"id":"x","prompt":"from a"}`)
	b.submit(t, "b", `{"id":"x","prompt":"from b"}`)
	for _, id := range []string{"a", "b"} {
		got := b.begin(t, b.release(t, id, 1)[0], "t", Granted)
		if !strings.Contains(string(got.Line.Body), "from "+id) {
			t.Errorf("batch %s got %s", id, got.Line.Body)
		}
	}
}

func TestChunkCache_IsBounded(t *testing.T) {
	b := setup(t)
	b.Redis = NewRedis(b.rdb, Options{Now: b.clock.now, CacheBytes: 1 << 20})
	b.submit(t, "b", wide(1000))
	for _, ref := range b.release(t, "b", 1000) {
		if got := b.begin(t, ref, "t", Granted); got.Line.CustomID != fmt.Sprintf("r%d", ref.Line) {
			t.Fatalf("%s is %s", ref, got.Line.CustomID)
		}
	}
	if b.cache.size > 1<<20 || b.cache.order.Len() != len(b.cache.byID) || b.cache.order.Len() == 0 {
		t.Fatalf("%d bytes, %d chunks, %d by name", b.cache.size, b.cache.order.Len(), len(b.cache.byID))
	}
}

func TestBegin_GivesTheLeaseBackWhenTheRequestCannotBeRead(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(1))
	ref := b.release(t, "b", 1)[0]
	must(t, b.rdb.Rename(t.Context(), key("b", "chunks"), key("b", "aside")).Err())
	if _, err := b.Begin(t.Context(), ref, "t1"); err == nil {
		t.Fatal("no error")
	}
	must(t, b.rdb.Rename(t.Context(), key("b", "aside"), key("b", "chunks")).Err())
	if got := b.begin(t, ref, "t2", Granted); got.Crashes != 0 {
		t.Fatalf("%+v", got)
	}
}
