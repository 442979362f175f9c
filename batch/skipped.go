package batch

import "nightshift/provider"

// KindSkipped is the kind of an entry of a result's attempts that is no call: a
// rung that was passed over, and why.
const KindSkipped provider.Kind = "skipped"

// Attempts is the list of a result: every call, and between them, by the time,
// the rungs that the last attempt passed over.
func (p Progress) Attempts() []provider.Call {
	all := make([]provider.Call, 0, len(p.Calls)+len(p.Skipped))
	skips := p.Skipped
	for _, c := range p.Calls {
		for len(skips) > 0 && skips[0].At.Before(c.StartedAt) {
			all, skips = append(all, skips[0].entry()), skips[1:]
		}
		all = append(all, c)
	}
	for _, s := range skips {
		all = append(all, s.entry())
	}
	return all
}

func (s Skip) entry() provider.Call {
	return provider.Call{Model: s.Model, Kind: KindSkipped, StartedAt: s.At, Detail: s.Detail}
}
