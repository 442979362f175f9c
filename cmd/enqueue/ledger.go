package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"nightshift/batch"
	"nightshift/provider"
)

// resultLine is what a run needs to know of a line of results.
type resultLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int `json:"status_code"`
	} `json:"response"`
	Error      *batch.ResultError `json:"error"`
	Nightshift *struct {
		Line       int64        `json:"line"`
		Generation int          `json:"generation"`
		Request    string       `json:"request"`
		Rehearsal  bool         `json:"rehearsal"`
		Degraded   bool         `json:"degraded"`
		Cached     bool         `json:"cached"`
		Attempts   []attempt    `json:"attempts"`
		Deferrals  int64        `json:"deferrals"`
		CostUSD    provider.USD `json:"cost_usd"`
		FinishedAt time.Time    `json:"finished_at"`
	} `json:"nightshift"`
}

// attempt is a call, or a rung that was passed over.
type attempt struct {
	Kind provider.Kind `json:"kind"`
}

// calls counts the calls among the attempts.
func (r resultLine) calls() (n int64) {
	for _, a := range r.Nightshift.Attempts {
		if a.Kind != batch.KindSkipped {
			n++
		}
	}
	return n
}

var errNoResult = errors.New("it is not a result of Nightshift")

func parseResult(line []byte) (resultLine, error) {
	var r resultLine
	if err := json.Unmarshal(line, &r); err != nil || r.Nightshift == nil || r.Nightshift.Request == "" {
		return r, errNoResult
	}
	return r, nil
}

// outcome is how the line ended.
func (r resultLine) outcome() batch.Outcome {
	switch {
	case r.Error != nil && r.Error.Code == batch.CodeExpired:
		return batch.Expired
	case r.Error != nil && r.Error.Code == batch.CodeCancelled:
		return batch.Cancelled
	case r.Error != nil || r.Response == nil || r.Response.StatusCode >= 400:
		return batch.Failed
	}
	return batch.Succeeded
}

func (r resultLine) succeeded() bool { return r.outcome() == batch.Succeeded }

// tally sums up results.
type tally struct {
	outcomes
	lines, degraded, cached, calls, deferrals int64
	cost                                      provider.USD
}

func (t *tally) add(r resultLine) {
	t.lines++
	t.outcomes.add(r.outcome())
	if r.Nightshift.Degraded {
		t.degraded++
	}
	if r.Nightshift.Cached {
		t.cached++
	}
	t.calls += r.calls()
	t.deferrals += r.Nightshift.Deferrals
	t.cost += r.Nightshift.CostUSD
}

// ledger is what the input asks for and what of it the output has.
type ledger struct {
	lines map[string]entry // by custom_id
	done  tally
}

type entry struct {
	request string // the line's digest
	done    bool
}

// newLedger reads the requests.
func newLedger(ctx context.Context, in *input, lines int64) (*ledger, error) {
	l := &ledger{lines: make(map[string]entry, lines)}
	err := in.each(ctx, func(src *batch.Reader) error {
		for {
			line, _, err := src.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read requests again: %w", err)
			}
			l.lines[line.CustomID] = entry{request: line.Digest}
		}
	})
	return l, err
}

// total is the number of lines of the input.
func (l *ledger) total() int64 { return int64(len(l.lines)) }

// todo is how many of them have no result.
func (l *ledger) todo() int64 { return l.total() - l.done.lines }

// wants says whether a result answers a line that has none yet.
func (l *ledger) wants(r resultLine) bool {
	e, ok := l.lines[r.CustomID]
	return ok && !e.done && e.request == r.Nightshift.Request
}

// settle notes the result of a line.
func (l *ledger) settle(r resultLine) {
	e := l.lines[r.CustomID]
	e.done = true
	l.lines[r.CustomID] = e
	l.done.add(r)
}

// lacks says whether a request has no result.
func (l *ledger) lacks(line batch.Line) bool { return !l.lines[line.CustomID].done }
