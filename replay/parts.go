package replay

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

const (
	partSize   = 128 << 10 // of a log, that is decoded at a time
	partsAhead = 3         // that are read before the first of them is given on
)

// errLong is a line that is longer than any record.
var errLong = errors.New("too long")

// source cuts a log into parts.
type source struct {
	in    io.Reader
	rest  []byte // of the line that the last part ended in
	spare []*part
}

// part is some whole lines of a log. It is decoded in a goroutine of its own, while the
// part before is given on.
type part struct {
	text  []byte
	torn  bool  // the last line has no end
	err   error // of reading, behind the lines
	lines int
	all   []decoded
	ready chan struct{}
	decoder
}

// decoded is what a line that is not blank came to.
type decoded struct {
	line int // in the part, from 1
	rec  Record
	err  error
	torn bool
}

// next reads a part, and says whether others follow.
func (s *source) next() (p *part, more bool) {
	if n := len(s.spare); n > 0 {
		p, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		p = &part{ready: make(chan struct{}, 1)}
	}
	p.err = nil
	p.text = append(p.text[:0], s.rest...)
	for size := len(p.text) + partSize; ; {
		p.text = slices.Grow(p.text, partSize)
		n, err := s.in.Read(p.text[len(p.text) : len(p.text)+partSize])
		p.text = p.text[:len(p.text)+n]
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.err = err
			}
			p.torn = len(p.text) > 0 && p.text[len(p.text)-1] != '\n'
			return p, false
		}
		if len(p.text) < size {
			continue
		}
		if end := bytes.LastIndexByte(p.text, '\n') + 1; end > 0 {
			s.rest = append(s.rest[:0], p.text[end:]...)
			p.text, p.torn = p.text[:end], false
			return p, true
		}
		if len(p.text) > maxRecord {
			p.torn = true
			return p, false // the line is an error
		}
		size += partSize
	}
}

// decode decodes the lines up to the first that is no record.
func (p *part) decode() {
	defer func() { p.ready <- struct{}{} }()
	p.lines, p.all = 0, p.all[:0]
	for text := p.text; len(text) > 0; {
		p.lines++
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		long := len(line) >= maxRecord
		if line = bytes.TrimSpace(line); len(line) == 0 && !long {
			continue
		}
		p.all = append(p.all, decoded{})
		d := &p.all[len(p.all)-1]
		if d.line, d.torn = p.lines, p.torn && len(text) == 0; long {
			d.err = errLong
			return
		}
		if d.err = p.record(line, &d.rec); d.err != nil {
			return
		}
	}
}
