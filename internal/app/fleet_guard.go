package app

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"nightshift/limit"
)

// otherProducers is the label of all producers that the configuration does not
// name: whoever submits must not make series.
const otherProducers = "other"

// guardGauges are the guard's of one label.
type guardGauges struct {
	open bool
	used float64
}

// readGuards exports the producers of the configuration, the guard over all, and
// the worst of the other producers as one.
func (f *Fleet) readGuards(ctx context.Context) (out []prometheus.Metric) {
	list, err := f.from.Guards(ctx)
	if err != nil {
		return f.missing(guardState, "list guards", err)
	}
	worst := map[string]guardGauges{otherProducers: {}}
	for _, s := range list {
		label := s.Producer
		switch {
		case label == limit.System: // held to no limit
			continue
		case label != limit.AllProducers && !slices.Contains(f.from.Producers, label):
			label = otherProducers
		}
		w := worst[label]
		worst[label] = guardGauges{w.open || s.Open, max(w.used, used(s))}
	}
	for label, g := range worst {
		out = append(out,
			f.gauge(guardState, yes(g.open), label, "open"), f.gauge(guardState, yes(!g.open), label, "closed"),
			f.gauge(guardUsed, g.used, label))
	}
	return out
}

// used is the share of its limit that a producer has used, of the one that it is
// nearer to; 0 without a limit.
func used(s limit.GuardStatus) float64 {
	var share float64
	if s.Limits.Calls > 0 {
		share = float64(s.Calls) / float64(s.Limits.Calls)
	}
	if s.Limits.USD > 0 {
		share = max(share, float64(s.USD)/float64(s.Limits.USD))
	}
	return share
}
