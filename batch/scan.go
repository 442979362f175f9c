package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Scanned is what a file of results holds, for a run that goes on with it.
type Scanned struct {
	// Lines are the results by line number; of several, the last counts.
	Lines map[int64]ScannedLine
	// End is the offset behind the last whole result: a file that is longer has
	// a torn last line, which begins here.
	End int64
	// Torn: there is something behind End.
	Torn bool
	// NoNewline: the last result is whole, but its newline is missing.
	NoNewline bool
}

// ScannedLine is what counts of one result.
type ScannedLine struct {
	Request   string // the input line's digest
	Failed    bool   // it has an error, or the provider's own 4xx
	Rehearsal bool
}

// Done returns whether a line needs no further work: it has a result that is
// real (or the run is a rehearsal too) and of the same request. With
// retryFailed, failed results do not count.
func (s Scanned) Done(l Line, rehearsal, retryFailed bool) bool {
	r, ok := s.Lines[l.Number]
	return ok && r.Request == l.Digest && (!r.Rehearsal || rehearsal) && (!r.Failed || !retryFailed)
}

// ScanResults reads a file of results. Only its last line may be torn; anything
// else that is not a result is a *LineError, so that no foreign file is ever
// appended to or cut. name stands in errors.
func ScanResults(r io.Reader, name string) (Scanned, error) {
	s := Scanned{Lines: map[int64]ScannedLine{}}
	in := bufio.NewReaderSize(r, 256<<10)
	for number := int64(1); ; number++ {
		line, err := in.ReadBytes('\n')
		whole := err == nil
		if err != nil && !errors.Is(err, io.EOF) {
			return s, fmt.Errorf("read results %s: %w", name, err)
		}
		if len(line) == 0 {
			return s, nil
		}
		n, res, ok := scanResult(line)
		switch {
		case ok:
			s.Lines[n] = res
			s.NoNewline = !whole
		case len(bytes.TrimSpace(line)) == 0 && whole:
		case !whole && (len(s.Lines) > 0 || bytes.HasPrefix([]byte(`{"id":"`), line) || bytes.HasPrefix(line, []byte(`{"id":"`))):
			s.Torn = true
			return s, nil
		default:
			return s, &LineError{File: name, Line: number, Msg: "it is not a result of Nightshift"}
		}
		s.End += int64(len(line))
		if !whole {
			return s, nil
		}
	}
}

func scanResult(line []byte) (number int64, res ScannedLine, ok bool) {
	var v struct {
		Response *struct {
			StatusCode int `json:"status_code"`
		} `json:"response"`
		Error      *ResultError `json:"error"`
		Nightshift struct {
			Line      int64  `json:"line"`
			Request   string `json:"request"`
			Rehearsal bool   `json:"rehearsal"`
		} `json:"nightshift"`
	}
	if json.Unmarshal(line, &v) != nil || v.Nightshift.Line <= 0 || v.Nightshift.Request == "" {
		return 0, ScannedLine{}, false
	}
	return v.Nightshift.Line, ScannedLine{
		Request:   v.Nightshift.Request,
		Failed:    v.Error != nil || v.Response == nil || v.Response.StatusCode >= 400,
		Rehearsal: v.Nightshift.Rehearsal,
	}, true
}
