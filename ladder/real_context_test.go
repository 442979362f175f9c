package ladder

import (
	"context"
	"strings"
	"testing"

	"nightshift/breaker"
	"nightshift/internal/sim"
	"nightshift/provider"
)

// A provider that counts more tokens than we do refuses once; the line comes
// back shorter, and says so.
func TestCase19_RealRefusalIsShortened(t *testing.T) {
	b := setupReal(t, 1, "", "a")
	b.ladder.truncates = true
	if err := b.sim.AddFaults("a", sim.Fault{Kind: sim.Context, LastCall: 1}); err != nil {
		t.Fatal(err)
	}
	r := talk("", "system:20", "user:100", "assistant:100", "user:first", "assistant:100", "user:last")
	out := b.ladder.whole(context.Background(), r, b.journal)
	wantEnd(t, out, Answered, "")
	same(t, "truncated", out.Answer.Truncated, 1)
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.ContextExceeded, provider.OK})
	if body := string(out.Answer.Body); !strings.Contains(body, "last") {
		t.Errorf("the last message did not arrive: %s", body)
	}
	same(t, "failures", b.status("a").Failures, 0)
	same(t, "state", b.status("a").State, breaker.Closed)
}
