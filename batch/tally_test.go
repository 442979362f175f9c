package batch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTallies(t *testing.T) {
	b := setup(t)
	b.submit(t, "one", jsonl(3))
	b.submit(t, "two", jsonl(2)+openAI("x"))
	refs := b.release(t, "one", 3)
	b.end(t, refs[0], Succeeded)
	b.end(t, refs[1], Failed)
	st := b.status(t, "one")
	got, err := b.Tallies(t.Context())
	must(t, err)
	want := map[string]Tally{"one": {Ended: 2, Calls: st.Calls, Cost: st.CostUSD, Wasted: st.WastedUSD}, "two": {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
