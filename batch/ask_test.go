package batch

import (
	"testing"

	"nightshift/internal/redistest"
)

// A begin is one round trip, whether its chunk is known or not.
func TestBeginBringsTheChunk(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(3*chunkLines))
	refs := b.release(t, "b", 3*chunkLines)
	must(t, b.scripts.begin.Load(t.Context(), b.rdb).Err())
	b.Redis = NewRedis(b.rdb, Options{Now: b.clock.now}) // it knows no chunk
	var c redistest.Trips
	b.rdb.AddHook(&c)
	for i, at := range []int{2 * chunkLines, 2*chunkLines + 1, 0, 1, chunkLines, 3*chunkLines - 1} {
		begun := b.begin(t, refs[at], "t", Granted)
		if want := refs[at].Line; begun.Line.Number != want || c.N() != int64(i+1) {
			t.Errorf("line %d, after %d round trips; want line %d after %d", begun.Line.Number, c.N(), want, i+1)
		}
	}
}

// A batch that is made again under its ID has other chunks.
func TestBeginAsksForTheChunkOfThisContent(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(1))
	b.begin(t, b.release(t, "b", 1)[0], "t", Granted)
	must(t, b.rdb.FlushAll(t.Context()).Err())
	b.submit(t, "b", openAI("other")+"\n")
	if got := b.begin(t, b.release(t, "b", 1)[0], "t", Granted); got.Line.CustomID != "other" {
		t.Errorf("the line is %s of the content before", got.Line.CustomID)
	}
}

// Of those that lack a chunk at the same time, one asks for it; it is dropped
// from the index with the chunk.
func TestOneAsksForAChunk(t *testing.T) {
	c := newChunkCache(1)
	ref := Ref{Batch: "b", Line: 70}
	have, done := c.ask(ref)
	other, _ := c.ask(Ref{Batch: "b", Line: 65})
	far, _ := c.ask(Ref{Batch: "b", Line: 1})
	if have != askChunk || other != noChunk || far != askChunk {
		t.Errorf("they say %q, %q and %q", have, other, far)
	}
	done()
	if have, _ = c.ask(ref); have != askChunk {
		t.Errorf("after an answer that is not kept: %q", have)
	}
	c.add(chunkID{"b", "d1", "1"}, []Line{{Number: 65}, {Number: 70}})
	if have, _ = c.ask(ref); have != "d1" {
		t.Errorf("of a known chunk it says %q", have)
	}
	if have, _ = c.ask(Ref{Batch: "b", Line: 66}); have == "d1" {
		t.Error("a line that is in no chunk is taken to be in one")
	}
	c.add(chunkID{"b", "d1", "0"}, []Line{{Number: 1}}) // drops the other
	if have, _ = c.ask(ref); have == "d1" || len(c.known["b"].chunks) != 1 {
		t.Errorf("of a dropped chunk it says %q, and there are %d", have, len(c.known["b"].chunks))
	}
}
