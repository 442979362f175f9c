package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"nightshift/internal/packer"
)

// sharing is n lines with a system prompt of 3 KiB that they share, in words that
// zstd finds nothing else in.
func sharing(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var prompt, b strings.Builder
	for prompt.Len() < 3<<10 {
		fmt.Fprintf(&prompt, "%x ", r.Uint64())
	}
	for i := range n {
		fmt.Fprintf(&b, `{"id":"r%d","prompt":"%x","system":"%s"}`+"\n", i+1, r.Uint64(), prompt.String())
	}
	return b.String()
}

func TestABatchHasADictionaryWhereLinesShareAPrompt(t *testing.T) {
	b := setup(t)
	b.submit(t, "shared", sharing(200))
	b.submit(t, "own", wide(200))
	if n := b.rdb.Exists(t.Context(), key("own", "dict")).Val(); n != 0 {
		t.Error("lines that share nothing have a dictionary")
	}
	for chunk, packed := range b.rdb.HGetAll(t.Context(), key("shared", "chunks")).Val() {
		if id := packer.DictionaryOf([]byte(packed)); id != chunkDictionary || len(packed) > 2500 {
			t.Errorf("chunk %s: %d bytes, dictionary %d", chunk, len(packed), id)
		}
	}
	// Another process reads them, whatever it had of that name.
	worker := on(b.rdb)
	for _, ref := range worker.release(t, "shared", 200) {
		l := worker.begin(t, ref, "t", Granted).Line
		if l.CustomID != fmt.Sprintf("r%d", ref.Line) || len(l.Body) < 3<<10 {
			t.Fatalf("%s: %.100s", ref, l.Body)
		}
	}
}

func TestTheDictionaryIsReadOnce(t *testing.T) {
	b := setup(t)
	b.submit(t, "shared", sharing(200))
	worker := on(b.rdb)
	refs := worker.release(t, "shared", 200)
	worker.begin(t, refs[0], "t", Granted)
	must(t, b.rdb.Del(t.Context(), key("shared", "dict")).Err())
	worker.begin(t, refs[199], "t", Granted) // in another chunk
}

// A submission that was begun with another dictionary goes on with that one.
func TestSubmissionGoesOnWithTheDictionaryThatIsThere(t *testing.T) {
	b := setup(t)
	text := sharing(200)
	must(t, b.rdb.Set(t.Context(), key("b", "dict"), b.packer.Pack(bytes.Repeat([]byte("other "), 100)), 0).Err())
	b.submit(t, "b", text)
	for _, ref := range b.release(t, "b", 200) {
		if l := b.begin(t, ref, "t", Granted).Line; l.CustomID != fmt.Sprintf("r%d", ref.Line) {
			t.Fatalf("%s is %s", ref, l.CustomID)
		}
	}
}
