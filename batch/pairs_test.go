package batch

import (
	"fmt"
	"testing"
)

func TestPairsOfEveryReply(t *testing.T) {
	for name, reply := range map[string]any{
		"pairs": []any{[]any{"a", "1"}}, "flat": []any{"a", "1"}, "a map": map[any]any{"a": "1"},
	} {
		if got := fmt.Sprint(pairsOf(reply)); got != "[{a 1}]" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, reply := range []any{nil, []any{}, map[any]any{}, []any{"a"}, "a"} {
		if got := pairsOf(reply); len(got) > 0 {
			t.Errorf("%v: %v", reply, got)
		}
	}
}
