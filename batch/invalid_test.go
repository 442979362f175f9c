package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// mixed is a file with lines that are no requests among others.
func mixed() string {
	return strings.Join([]string{
		openAI("a"), `not json`, openAI("b"), openAI("a"), `{"custom_id":"c","method":"GET","url":"/v1/chat/completions","body":{}}`, "", openAI("d"),
	}, "\n")
}

func skipping(tb testing.TB, text string) *Reader {
	r := reader(tb, text)
	r.SkipInvalid = true
	return r
}

func TestCase33_InvalidLinesFailAtOnceWhereTheyAreSkipped(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *bundle{"redis": setup, "miniredis": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			d := Description{ID: "b", Producer: "ann", Queue: "overnight"}
			for range 2 { // the second adds nothing
				must(t, b.Submit(t.Context(), d, skipping(t, mixed()), nil))
			}
			if st := b.status(t, "b"); st.Total != 6 || st.Failed != 3 || st.PassedOver != 3 || st.Outstanding != 3 {
				t.Fatalf("%+v", st)
			}
			got := map[int64]string{}
			for _, r := range b.records(t, "b") {
				var res Result
				must(t, json.Unmarshal(r.JSON, &res))
				got[r.Line] = fmt.Sprintf("%s %q %s: %s", r.Outcome, res.CustomID, res.Error.Code, res.Error.Message)
			}
			for line, want := range map[int64]string{
				2: `failed "" invalid_request: it is not JSON: invalid character 'o' in literal null (expecting 'u') at byte 2`,
				4: `failed "a" invalid_request: custom_id: "a" stands on line 1 already`,
				5: `failed "c" invalid_request: method: it is "GET", not "POST"`,
			} {
				if got[line] != want {
					t.Errorf("line %d: %s, want %s", line, got[line], want)
				}
			}
			if lines := drain(t, b, "b"); fmt.Sprint(lines) != "[1 3 7]" {
				t.Errorf("released %v", lines)
			}
		})
	}
}

func TestABatchOfInvalidLinesIsDoneAtOnce(t *testing.T) {
	b := setup(t)
	must(t, b.Submit(t.Context(), Description{ID: "b"}, skipping(t, "x\ny\n"), nil))
	if st := b.status(t, "b"); st.State != Done || st.Failed != 2 {
		t.Fatalf("%+v", st)
	}
}

func TestACancelledPartKeepsItsInvalidLines(t *testing.T) {
	b := setup(t)
	text := "x\n" + wide(1000)
	p := pack(t, skipping(t, text))
	stop := errors.New("stop")
	err := p.each(func(c packedChunk) error {
		d := Description{ID: "b", Total: p.Lines, Digest: p.Digest}
		_, err := b.openBatch(t.Context(), &d)
		must(t, err)
		var gr group
		gr.add(c, c.packed)
		must(t, b.put(t.Context(), d, gr.args))
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	must(t, b.Cancel(t.Context(), "b"))
	_, err = b.End(t.Context(), "b", 1, Cancelled, 1000)
	must(t, err)
	if st := b.status(t, "b"); st.State != Done || st.Failed != 1 || st.Cancelled != st.Total-1 || st.Total >= 1000 {
		t.Fatalf("%+v", st)
	}
}

func TestSkippingChangesNothingOfAGoodFile(t *testing.T) {
	a, err := Validate(reader(t, jsonl(100)))
	must(t, err)
	b, err := Validate(skipping(t, jsonl(100)))
	must(t, err)
	if a != b || b.Failed != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	if _, err := Validate(skipping(t, string(gz(t, jsonl(2000))[:500]))); err == nil {
		t.Error("a torn file is skipped over")
	}
}

// A message that is as long as a line would be kept for nothing.
func TestMessagesOfInvalidLinesAreBounded(t *testing.T) {
	long := `{"custom_id":"a","` + strings.Repeat("é", 5000) + `":1}`
	p := pack(t, skipping(t, long))
	must(t, p.each(func(c packedChunk) error {
		if m := c.failed[0].message; len(m) > maxMessage+10 || !strings.HasSuffix(m, " …") || strings.ContainsRune(m, '\ufffd') {
			t.Errorf("%d bytes: %.20s", len(m), m)
		}
		return nil
	}))
}
