package tasks

import (
	"math/rand/v2"
	"time"

	"nightshift/batch"
)

// quietFor is how long a batch without a released line is taken for unchanged: what
// people do to it (cancel, update, retry) shows a second later at most.
const quietFor = time.Second

// quiet are the batches of which nothing is released, and when each was read: there
// may be thousands, scheduled for later, and ten rounds a second.
type quiet map[string]quietBatch

type quietBatch struct {
	batch.Backlog
	read time.Time
}

// known are those that need not be read again yet.
func (q quiet) known(now time.Time) map[string]batch.Backlog {
	all := map[string]batch.Backlog{}
	for id, b := range q {
		if age := now.Sub(b.read); age >= 0 && age < quietFor {
			all[id] = b.Backlog
		}
	}
	return all
}

// look notes the batches that were read, or known; others are gone.
func (q quiet) look(backlogs []batch.Backlog, now time.Time) {
	before := make(quiet, len(q))
	for id, b := range q {
		before[id] = b
	}
	clear(q)
	for _, b := range backlogs {
		if b.Out > 0 || b.Cancelled {
			continue
		}
		was, seen := before[b.ID]
		read := now
		switch age := now.Sub(was.read); {
		case seen && age >= 0 && age < quietFor:
			read = was.read
		case !seen: // they are not all read in the same round
			read = now.Add(-rand.N(quietFor))
		}
		q[b.ID] = quietBatch{b, read}
	}
}

// stir has a batch read again, because this keeper changes it.
func (q quiet) stir(id string) { delete(q, id) }

// awake are the batches that calls may be made for now or soon.
func (k *Keeper) awake(backlogs []batch.Backlog) (all []batch.Backlog) {
	for _, b := range backlogs {
		if b.Out > 0 || b.Waiting > 0 && !b.Now.Before(b.NotBefore) && k.hours[b.Queue].Open(b.Now) {
			all = append(all, b)
		}
	}
	return all
}
