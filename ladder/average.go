package ladder

import "time"

// alpha is the weight of the newest sample in an exponential average (design
// section 7): half of what an average says is of the last three samples.
const alpha = 0.2

// forget is how fast a bad success rate is forgiven while nothing is called:
// half of what is missing to 1 each two minutes. Without it, a model that was
// passed over for its failures would never be seen to have recovered.
const forget = 2 * time.Minute

// Average is an exponential average, as a sum and its weight. Averages compose:
// what one process sampled is added to what others did without its samples.
// The zero Average has no samples.
type Average struct {
	Sum, Weight float64
}

// add takes one more sample.
func (a *Average) add(x float64) { *a = a.then(Average{alpha * x, alpha}) }

// then returns a after the samples of b. The share of a's samples in that is
// what the weight of b leaves, (1-α)^n for n samples.
func (a Average) then(b Average) Average {
	left := 1 - b.Weight
	return Average{a.Sum*left + b.Sum, a.Weight*left + b.Weight}
}

// mean is the average of the samples so far, or otherwise where there are none.
func (a Average) mean(otherwise float64) float64 {
	if a.Weight <= 0 {
		return otherwise
	}
	return a.Sum / a.Weight
}

// Averages are what the fleet's calls to one model came to. The zero Averages
// are those of a model that was never called.
type Averages struct {
	Success Average // 1 for an answer, 0 for a failure
	Latency Average // of answers, in ms
	At      time.Time
}

// then returns the averages after later samples.
func (a Averages) then(b Averages) Averages {
	return Averages{a.Success.then(b.Success), a.Latency.then(b.Latency), later(a.At, b.At)}
}

// add takes one call.
func (a *Averages) add(ok bool, latency time.Duration, now time.Time) {
	a.At = later(a.At, now)
	if !ok {
		a.Success.add(0)
		return
	}
	a.Success.add(1)
	a.Latency.add(float64(latency.Milliseconds()))
}

// success is the share of calls that were answered, forgiven with time; a model
// that was never called gets the benefit of the doubt.
func (a Averages) success(now time.Time) float64 {
	return 1 - a.faded(1-a.Success.mean(1), now)
}

// usual is how long an answer takes, in ms, forgiven with time likewise: who
// makes no call because it would take too long would never see that it does not.
func (a Averages) usual(now time.Time) float64 { return a.faded(a.latency(), now) }

// faded is what is left of something bad that nobody has looked at since.
func (a Averages) faded(bad float64, now time.Time) float64 {
	for age := now.Sub(a.At); age >= forget && bad > 0.001; age -= forget {
		bad /= 2
	}
	return bad
}

// latency is the mean of the answers in ms; 0: not known.
func (a Averages) latency() float64 { return a.Latency.mean(0) }
