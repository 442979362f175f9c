package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

// Arrivals say when the lines of a log are taken to come in.
type Arrivals string

// The ways. A log does not tell when lines were submitted.
const (
	// ArriveBatch: all lines of a batch with its first record.
	ArriveBatch Arrivals = "batch"
	// ArriveLine: each line with its own first record.
	ArriveLine Arrivals = "line"
)

// Collector makes traffic and a model of the records of a log.
type Collector struct {
	history *history
	batches map[string]*loggedBatch
	calls   int
	workers map[int64]map[string]bool // by hour
	noted   map[string]int            // what was left aside, and how often
}

type loggedBatch struct {
	Batch
	lines map[int64]*loggedLine
}

type loggedLine struct {
	first         time.Time
	input, output int64
}

// NewCollector returns an empty one.
func NewCollector() *Collector {
	return &Collector{history: &history{models: map[string]*modelHistory{}}, batches: map[string]*loggedBatch{}, workers: map[int64]map[string]bool{}, noted: map[string]int{}}
}

// Add takes a record.
func (c *Collector) Add(r *Record) error {
	if r.Type == TypeGap {
		return nil
	}
	hour := r.Time.Unix() / 3600
	if c.workers[hour] == nil {
		c.workers[hour] = map[string]bool{}
	}
	c.workers[hour][r.Worker] = true
	if r.Type == TypeCall {
		c.calls++
		c.history.note(r)
	}
	if r.Batch == "" {
		return nil
	}
	id := r.Batch
	if r.Generation > 0 {
		id = fmt.Sprintf("%s.%d", id, r.Generation)
	}
	b := c.batches[id]
	if b == nil {
		b = &loggedBatch{Batch: Batch{ID: id, Producer: r.Producer, Queue: r.Queue, At: r.Time}, lines: map[int64]*loggedLine{}}
		c.batches[id] = b
	}
	if r.Time.Before(b.At) {
		b.At = r.Time
	}
	l := b.lines[r.Line]
	if l == nil {
		l = &loggedLine{first: r.Time}
		b.lines[r.Line] = l
	}
	if r.Time.Before(l.first) {
		l.first = r.Time
	}
	if r.Kind == provider.OK || r.Input > 0 {
		l.input, l.output = r.Input, r.Output
	}
	return nil
}

// Build makes traffic and model, for the models of configurations. It also says
// what was assumed.
func (c *Collector) Build(keys []breaker.Key, how Arrivals) (*Traffic, *Model, []string, error) {
	if c.calls == 0 {
		return nil, nil, nil, fmt.Errorf("read call log: it has no calls")
	}
	if len(c.batches) == 0 {
		return nil, nil, nil, fmt.Errorf("read call log: it has calls of probes alone, and no line to replay")
	}
	c.history.finish()
	providers := map[string]string{}
	var models []string
	for _, k := range keys {
		providers[k.Model] = k.Provider
		models = append(models, k.Model)
	}
	said := c.history.standIns(models, func(m string) string { return providers[m] })
	t := &Traffic{Workers: 1}
	for _, w := range c.workers {
		t.Workers = max(t.Workers, len(w))
	}
	unknown := 0
	for _, id := range slices.Sorted(maps.Keys(c.batches)) {
		b := c.batches[id]
		unknown += b.fill()
		if how == ArriveLine {
			t.Batches = append(t.Batches, b.apart()...)
			continue
		}
		t.Batches = append(t.Batches, b.Batch)
	}
	if unknown > 0 {
		said = append(said, fmt.Sprintf("%d lines have no answer in the log: their tokens are those of an average line of their batch", unknown))
	}
	slices.SortStableFunc(t.Batches, func(a, b Batch) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return t, &Model{logged: c.history}, said, nil
}

// fill makes the batch's lines; what is not known of one is the average of the others.
func (b *loggedBatch) fill() (unknown int) {
	var n, input, output int64
	for _, l := range b.lines {
		if l.input > 0 {
			n++
			input += l.input
			output += l.output
		}
	}
	b.Lines = make([]Line, 0, len(b.lines))
	for _, number := range slices.Sorted(maps.Keys(b.lines)) {
		l := b.lines[number]
		x := Line{Number: number, Input: int32(l.input), Output: int32(l.output)}
		if l.input == 0 {
			unknown++
			x.Input = 500
			if n > 0 {
				x.Input, x.Output = int32(input/n), int32(output/n)
			}
		}
		b.Lines = append(b.Lines, x)
	}
	return unknown
}

// apart has each line come by itself.
func (b *loggedBatch) apart() (all []Batch) {
	for _, l := range b.Lines {
		one := b.Batch
		one.ID = fmt.Sprintf("%s:%d", b.ID, l.Number)
		one.At, one.Lines = b.lines[l.Number].first, []Line{l}
		all = append(all, one)
	}
	return all
}
