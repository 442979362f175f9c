package breaker

import "math/bits"

// OutputVerdict is what the caller's own checks say of a model's answer.
type OutputVerdict int

// The verdicts.
const (
	Unjudged OutputVerdict = iota
	ValidOutput
	InvalidOutput
)

// maxJudged is how many of the last judged answers make the quality figure.
const maxJudged = 50

// Outputs is the quality figure beside a model's breaker: the verdicts on its
// last 50 judged answers, of calls and of probes. A model can answer 200 and get
// worse all the same; its breaker sees nothing of that, and a bad figure does
// not move it.
//
// A verdict counts once a ticket, in the epoch of the ticket or, for a probe,
// with its lease, and whatever the outcome beside it: an invalid output is
// mostly reported as [None]. Verdicts have no age: they stay until 50 newer ones
// have come, an operator resets the model's breaker, or its record is lost.
// So a model that is asked no more keeps its figure; who avoids models by it
// must ask now and then.
type Outputs struct {
	Judged int    // answers, at most 50
	Marks  uint64 // a bit each, set: invalid; the newest is bit 0
}

// Invalid is how many of them were invalid.
func (o Outputs) Invalid() int { return bits.OnesCount64(o.Marks) }

func (o *Outputs) judge(v OutputVerdict) {
	if v != ValidOutput && v != InvalidOutput {
		return
	}
	o.Marks <<= 1
	if v == InvalidOutput {
		o.Marks |= 1
	}
	o.Marks &= 1<<maxJudged - 1
	o.Judged = min(o.Judged+1, maxJudged)
}
