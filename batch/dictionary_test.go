package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"nightshift/internal/packer"
	"nightshift/provider"
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

// Records in Redis need the dictionary byte for byte. A better one is another file
// under another ID; this test stays as it is.
func TestTheDictionaryForRecordsNeverChanges(t *testing.T) {
	const want = "cf4a6c8bf10aba83612347cff7fbf1258699fc761743368e946341b0c8c1912d"
	if got := fmt.Sprintf("%x", sha256.Sum256(recordText)); recordDictionary != 40_002 || got != want {
		t.Errorf("dictionary %d is %s", recordDictionary, got)
	}
}

// finishOne finishes a line with the answer of a chat completion, and returns the
// output line and the record's body.
func (b *bundle) finishOne(t *testing.T, id string) (line []byte, body string) {
	t.Helper()
	b.submit(t, id, openAI(id))
	l := Lease{b.release(t, id, 1)[0], "t"}
	p := Progress{Calls: []provider.Call{call("openai/gpt-4o", 1000)}}
	r := answer(b.begin(t, l.Ref, l.Token, Granted).Line, p)
	r.Response.Body = json.RawMessage(`{"id":"chatcmpl-7QyqpwdfhqwajicIEznoc6Q47XAyW","object":"chat.completion","created":1700000000,` +
		`"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":"Zwölf Boxkämpfer jagen Viktor.",` +
		`"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":17,"completion_tokens":9,"total_tokens":26}}`)
	must(t, b.Finish(t.Context(), l, p, Succeeded, r))
	line, err := r.Encode()
	must(t, err)
	_, body, _ = strings.Cut(b.rdb.HGet(t.Context(), key(id, "rec"), "1").Val(), "\n")
	return line, body
}

func TestARecordIsPackedWithTheDictionaryForRecords(t *testing.T) {
	b := setup(t)
	line, body := b.finishOne(t, "b")
	if id := packer.DictionaryOf([]byte(body)); id != recordDictionary || len(body)*3 > len(line) {
		t.Errorf("%d bytes of %d, dictionary %d", len(body), len(line), id)
	}
	if got := on(b.rdb).records(t, "b"); len(got) != 1 || !bytes.Equal(got[0].JSON, line) {
		t.Errorf("records %v, want %s", got, line)
	}
}

// Records of versions that packed them without a dictionary stay readable; one of
// a later version is named as such.
func TestRecordsOfOtherVersions(t *testing.T) {
	b := setup(t)
	line, body := b.finishOne(t, "b")
	stored := b.rdb.HGet(t.Context(), key("b", "rec"), "1").Val()
	put := func(packed []byte) {
		t.Helper()
		must(t, b.rdb.HSet(t.Context(), key("b", "rec"), "1", strings.TrimSuffix(stored, body)+string(packed)).Err())
	}
	put(b.packer.Pack(line))
	if got := b.records(t, "b"); len(got) != 1 || !bytes.Equal(got[0].JSON, line) {
		t.Errorf("records %v, want %s", got, line)
	}
	put(packer.WithDictionary(maxDecoded, 40_777, recordText).Pack(line))
	_, err := b.Record(t.Context(), "b", 1)
	if err == nil || !strings.Contains(err.Error(), "dictionary 40777") || !strings.Contains(err.Error(), "update") {
		t.Errorf("error %v", err)
	}
}
