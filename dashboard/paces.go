package dashboard

import (
	"fmt"
	"time"

	"nightshift/limit"
)

// paceView is how fast a model is called.
type paceView struct {
	limit.Pace
	now time.Time
}

// Until is when the model's park ends; zero: it is not parked.
func (p *paceView) Until() (until time.Time) {
	if p.Parked > 0 {
		until = p.now.Add(p.Parked)
	}
	return until
}

// Speed tells the rate that counts; "" where no limit is known.
func (p *paceView) Speed() string {
	if p.Rate <= 0 {
		return ""
	}
	return rate(float64(p.Rate) / 1000)
}

// From tells where the rate is from.
func (p *paceView) From() string {
	switch {
	case p.Rate <= 0 && p.Starting:
		return "finding out"
	case p.Rate <= 0:
		return "no limit met"
	case p.Rate == int64(p.Limits.RPM)*1000:
		return "configured"
	case p.Rate == p.LearnedRate:
		return "learned"
	case p.Rate == p.ToldRate:
		return "told by the provider"
	}
	return ""
}

// Flight tells the calls in flight, and how many there may be.
func (p *paceView) Flight() string {
	if p.Concurrency <= 0 {
		return count(p.InFlight)
	}
	return fmt.Sprintf("%s of %s", count(p.InFlight), count(p.Concurrency))
}

// FlightFrom tells where the bound of the calls in flight is from, where it is not
// the configured one.
func (p *paceView) FlightFrom() string {
	if p.Concurrency > 0 && p.Concurrency == p.LearnedConcurrency && p.Concurrency != int64(p.Limits.Concurrency) {
		return "learned"
	}
	return ""
}

// Asked counts the calls that the provider was asked for, ever.
func (p *paceView) Asked() int64 { return p.Calls + p.Limited }
