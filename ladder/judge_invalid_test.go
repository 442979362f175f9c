package ladder

import (
	"testing"

	"nightshift/breaker"
	"nightshift/provider"
)

// Some providers look at the answer themselves, and refuse one that is no JSON.
func TestAnAnswerThatTheProviderFindsInvalid(t *testing.T) {
	invalid := &provider.Error{Kind: provider.InvalidOutput, StatusCode: 400, Message: "no valid JSON", Body: []byte(`{"error":{}}`)}
	b := setup(t, "a", "b")
	b.script("a", invalid)
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Answered, "")
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
	equal(t, "ruled out", out.Progress.RuledOut, []int{0})

	b.script("b", invalid)
	out = b.attempt(2, "a", "b")
	wantEnd(t, out, Final, "invalid_output")
	same(t, "status", out.Response.StatusCode, 400)
}
