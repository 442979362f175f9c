package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// maxRecord bounds a line of a log, in bytes; a record takes about 500.
const maxRecord = 1 << 20

// disorder is how much earlier than the record before it a record may end before
// that is pointed out: workers write theirs side by side.
const disorder = time.Minute

// Warning is something about a log that a reader of its figures must know.
type Warning struct {
	What  string `json:"what"`
	Count int    `json:"count"`
	First string `json:"first"` // file and line
}

// String is the warning as people read it.
func (w Warning) String() string {
	if w.Count == 1 {
		return fmt.Sprintf("%s: %s", w.First, w.What)
	}
	return fmt.Sprintf("%s: %s (and %d more)", w.First, w.What, w.Count-1)
}

// Reader reads logs, one after another, and gives their records on. What cannot be
// used is left out, and is a warning; what makes every figure wrong is an error.
type Reader struct {
	each     func(*Record) error
	warnings []*Warning
	seen     map[string]*spans // by worker
	records  int
	left     int // out
}

// NewReader returns a reader that gives each usable record on; the record is valid
// during the call alone.
func NewReader(each func(*Record) error) *Reader {
	return &Reader{each: each, seen: map[string]*spans{}}
}

// Records is how many were given on.
func (r *Reader) Records() int { return r.records }

// Warnings are what was odd, in the order in which it was met.
func (r *Reader) Warnings() (all []Warning) {
	for _, w := range r.warnings {
		all = append(all, *w)
	}
	return all
}

func (r *Reader) warn(what, where string) {
	i := slices.IndexFunc(r.warnings, func(w *Warning) bool { return w.What == what })
	if i < 0 {
		r.warnings = append(r.warnings, &Warning{What: what, Count: 1, First: where})
		return
	}
	r.warnings[i].Count++
}

// ReadFile reads a file, also one that is compressed by gzip; "-" is in.
func (r *Reader) ReadFile(name string, in io.Reader) error {
	if name == "-" {
		return r.Read("standard input", in)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read call log: %w", err)
	}
	defer f.Close()
	return r.Read(name, f)
}

// Read reads one log. While the lines of a part of it are given on, those of the next
// parts are decoded, which takes about as long.
func (r *Reader) Read(name string, in io.Reader) error {
	b := bufio.NewReaderSize(in, 1<<16)
	src := source{in: b}
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(len(mark)) // they are there
	}
	if head, _ := b.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return fmt.Errorf("read call log %s: %w", name, err)
		}
		src.in = z
	}
	one := reading{Reader: r, name: name}
	var ahead []*part
	for more := true; more || len(ahead) > 0; {
		for more && len(ahead) < partsAhead {
			var p *part
			p, more = src.next()
			ahead = append(ahead, p)
			go p.decode()
		}
		p := ahead[0]
		ahead = ahead[1:]
		<-p.ready
		if err := one.takeAll(p); err != nil {
			return err
		}
		src.spare = append(src.spare, p)
	}
	return nil
}

// reading is the reading of one log.
type reading struct {
	*Reader
	name string
	line int
	last time.Time
}

func (r *reading) where() string { return fmt.Sprintf("%s:%d", r.name, r.line) }

// takeAll takes the lines of a part, and what ended it.
func (r *reading) takeAll(p *part) error {
	before := r.line
	for i := range p.all {
		r.line = before + p.all[i].line
		if err := r.take(&p.all[i]); err != nil {
			return err
		}
	}
	r.line = before + p.lines
	switch {
	case errors.Is(p.err, io.ErrUnexpectedEOF) && r.line > 0:
		r.warn("the file is cut off: what follows is missing", r.where())
	case p.err != nil:
		return fmt.Errorf("read call log %s: %w", r.name, p.err)
	}
	return nil
}

// take takes one line.
func (r *reading) take(d *decoded) error {
	rec := &d.rec
	switch {
	case errors.Is(d.err, errLong):
		return fmt.Errorf("read call log %s: a line of more than %d bytes is no record", r.where(), maxRecord)
	case d.err != nil && d.torn:
		r.warn("the last line is torn and left out", r.where())
		return nil
	case d.err != nil:
		return fmt.Errorf("read call log %s: it is no record: %w", r.where(), d.err)
	}
	if rec.V > Version {
		return fmt.Errorf("read call log %s: a later version wrote it (v %d, this one reads up to %d): use that one", r.where(), rec.V, Version)
	}
	if err := rec.check(); err != nil {
		r.left++
		r.warn("left out: "+err.Error(), r.where())
		return nil
	}
	if rec.Worker != "" && rec.Seq > 0 && !r.first(rec) {
		r.warn("left out: the record was read before", r.where())
		return nil
	}
	r.order(rec)
	if rec.Type == TypeGap {
		r.warn(fmt.Sprintf("%d records of worker %s are missing: they were dropped while Redis was away or slow", rec.Dropped, rec.Worker), r.where())
	}
	r.records++
	return r.each(rec)
}

// order points out records that are far from their place; they are sorted later.
func (r *reading) order(rec *Record) {
	end := rec.end()
	if end.Before(r.last.Add(-disorder)) {
		r.warn("records are not in the order of time; they were sorted", r.where())
	}
	if end.After(r.last) {
		r.last = end
	}
}

// first says that a record was not read before, from this log or another.
func (r *Reader) first(rec *Record) bool {
	s := r.seen[rec.Worker]
	if s == nil {
		s = &spans{}
		r.seen[rec.Worker] = s
	}
	return s.add(rec.Seq)
}

// Check says whether the logs can be replayed at all.
func (r *Reader) Check() error {
	switch {
	case r.records == 0 && r.left == 0 && len(r.warnings) > 0:
		return fmt.Errorf("read call log: it has no record; first: %s", r.warnings[0])
	case r.records == 0 && r.left == 0:
		return errors.New("read call log: it is empty")
	case r.left >= r.records:
		return fmt.Errorf("read call log: %d of %d records cannot be used, so no figure would be right; first: %s", r.left, r.left+r.records, r.warnings[0])
	}
	return nil
}

// spans are whole numbers, as ranges: a worker's records are almost in order.
type spans struct{ all [][2]int64 } // ascending, both ends included, apart

// add says whether n was not there.
func (s *spans) add(n int64) bool {
	i := len(s.all)
	for i > 0 && s.all[i-1][0] > n { // near the end
		i--
	}
	before := i > 0 && s.all[i-1][1]+1 == n
	if i > 0 && s.all[i-1][1] >= n {
		return false
	}
	after := i < len(s.all) && s.all[i][0] == n+1
	switch {
	case before && after:
		s.all[i-1][1] = s.all[i][1]
		s.all = slices.Delete(s.all, i, i+1)
	case before:
		s.all[i-1][1] = n
	case after:
		s.all[i][0] = n
	default:
		s.all = slices.Insert(s.all, i, [2]int64{n, n})
	}
	return true
}
