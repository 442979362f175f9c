package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sync"
	"time"
)

// Call is one call as the simulator saw it.
type Call struct {
	N     int64     `json:"n"`  // of this server, from 1
	At    time.Time `json:"at"` // when the request had been read
	Model string    `json:"model"`
	// IdempotencyKey is the request's; "" for none.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Stream says that a stream was asked for.
	Stream bool `json:"stream,omitempty"`
	// Digest is the first 16 hex digits of the body's SHA-256.
	Digest string `json:"digest"`
	// Fault is the kind of fault, "rate_limit" for the hidden one, "" for none.
	Fault Kind `json:"fault,omitempty"`
	// Status is what was sent; 0 while the call is in flight, and where it
	// ended without a response.
	Status int `json:"status"`
	// Cut says that the client went away, or the server closed, before a whole
	// response.
	Cut bool `json:"cut,omitempty"`
	// Done says that the call has ended, after MS milliseconds.
	Done bool  `json:"done"`
	MS   int64 `json:"ms"`
}

// Counts is the log summed up. Unlike the log it forgets nothing.
type Counts struct {
	Calls       int64                  `json:"calls"` // begun
	Cut         int64                  `json:"cut"`
	InFlight    int64                  `json:"in_flight"`
	MaxInFlight int64                  `json:"max_in_flight"`
	Models      map[string]ModelCounts `json:"models"`
}

// ModelCounts are one model's.
type ModelCounts struct {
	Calls       int64         `json:"calls"`
	Cut         int64         `json:"cut"`
	InFlight    int64         `json:"in_flight"`
	MaxInFlight int64         `json:"max_in_flight"`
	Statuses    map[int]int64 `json:"statuses"` // 0: ended without a response
}

// callLog keeps the last calls, and counts of all.
type callLog struct {
	mu     sync.Mutex
	keep   int
	calls  []Call // the call n stands at (n-1) % keep
	last   int64
	counts Counts
	epoch  int // raised by reset: older calls in flight are no longer counted
}

func newLog(keep int) *callLog {
	return &callLog{keep: keep, counts: Counts{Models: map[string]ModelCounts{}}}
}

// begin puts a call on the log and returns it with its number.
func (l *callLog) begin(c Call) (Call, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	c.N = l.last
	if i := int(c.N-1) % l.keep; i < len(l.calls) {
		l.calls[i] = c
	} else {
		l.calls = append(l.calls, c)
	}
	m := l.counts.Models[c.Model]
	if m.Statuses == nil {
		m.Statuses = map[int]int64{}
	}
	l.counts.Calls++
	m.Calls++
	l.counts.InFlight++
	m.InFlight++
	l.counts.MaxInFlight = max(l.counts.MaxInFlight, l.counts.InFlight)
	m.MaxInFlight = max(m.MaxInFlight, m.InFlight)
	l.counts.Models[c.Model] = m
	return c, l.epoch
}

// end completes a call on the log.
func (l *callLog) end(c Call, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.epoch {
		return
	}
	c.Done = true
	if i := int(c.N-1) % l.keep; i < len(l.calls) && l.calls[i].N == c.N {
		l.calls[i] = c
	}
	m := l.counts.Models[c.Model]
	l.counts.InFlight--
	m.InFlight--
	m.Statuses[c.Status]++
	if c.Cut {
		l.counts.Cut++
		m.Cut++
	}
	l.counts.Models[c.Model] = m
}

func (l *callLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	l.last, l.calls = 0, nil
	l.counts = Counts{Models: map[string]ModelCounts{}}
}

// list returns the calls that are still kept, oldest first.
func (l *callLog) list() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Call, 0, len(l.calls))
	if len(l.calls) == l.keep {
		oldest := int(l.last) % l.keep
		all = append(all, l.calls[oldest:]...)
		return append(all, l.calls[:oldest]...)
	}
	return append(all, l.calls...)
}

func (l *callLog) sum() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Models = make(map[string]ModelCounts, len(l.counts.Models))
	for name, m := range l.counts.Models {
		m.Statuses = maps.Clone(m.Statuses)
		c.Models[name] = m
	}
	return c
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}
