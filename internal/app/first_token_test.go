package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"nightshift/ladder"
	"nightshift/provider"
)

// Only an answer whose first token is known has a place in its histogram: a
// plain one would count as one that came at once.
func TestFirstTokensOfStreamedAnswersAlone(t *testing.T) {
	m, reg := newTestMetrics(t)
	w := &watching{metrics: m, log: slog.New(slog.DiscardHandler)}
	for _, took := range []time.Duration{0, 400 * time.Millisecond, 0, 12 * time.Second} {
		w.Called(ladder.CallEvent{Purpose: ladder.ForLine, Key: gpt, Call: provider.Call{Kind: provider.OK}, FirstToken: took})
	}
	if n := testutil.CollectAndCount(m.firstToken); n != 1 {
		t.Errorf("%d series", n)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == "nightshift_time_to_first_token_seconds" {
			if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() != 12.4 {
				t.Errorf("histogram %v", h)
			}
			return
		}
	}
	t.Error("no histogram of first tokens")
}
