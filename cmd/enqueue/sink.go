package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// sink is where results are appended that are followed.
type sink struct {
	*output
	from    int64 // what comes before, the file has
	written bool  // since the last sync
}

// put appends a result, unless the file has it. at is its place among the ends of
// lines, or its line where those are followed.
func (s *sink) put(at int64, line []byte) error {
	if at < s.from {
		return nil
	}
	if err := s.append(line); err != nil {
		return err
	}
	s.from, s.written = at+1, true
	return nil
}

// sync writes what was appended through to the disk.
func (s *sink) sync() error {
	if s.file == nil || !s.written {
		return nil
	}
	s.written = false
	if err := s.file.Sync(); err != nil {
		return &outputError{fmt.Errorf("write %s: %w", s.name, err)}
	}
	return nil
}

// tail is what the end of a file says.
type tail struct {
	lines int64
	last  resultLine
}

// tail mends a file of results and returns its end; none where nothing can be
// read back.
func (s *sink) tail(p *program) (t tail, err error) {
	if s.file == nil {
		return t, nil
	}
	cut, err := s.mend()
	if err != nil {
		return t, err
	}
	if cut > 0 {
		p.Say("mended %s: its last line was torn; cut off %d bytes", s.name, cut)
	}
	if t.lines, err = s.count(); err != nil || t.lines == 0 {
		return t, err
	}
	size, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return t, fmt.Errorf("read %s: %w", s.name, err)
	}
	_, last, err := s.lastLine(size - 1)
	if err != nil {
		return t, err
	}
	if t.last, err = parseResult(bytes.TrimRight(last, "\r\n")); err != nil {
		return t, s.foreign("the last line of " + s.name)
	}
	return t, nil
}

// count returns how many lines the file has.
func (o *output) count() (n int64, err error) {
	if _, err := o.file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("read %s: %w", o.name, err)
	}
	buf := make([]byte, 256<<10)
	for {
		got, err := o.file.Read(buf)
		n += int64(bytes.Count(buf[:got], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", o.name, err)
		}
	}
}

// resultID is the name of a result; "" where it is none.
func resultID(line []byte) string {
	var r struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(line, &r) // of no result: ""
	return r.ID
}
