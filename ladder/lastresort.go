package ladder

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"nightshift/config"
	"nightshift/provider"
)

// LastResort gives the texts that a ladder has for its lines at the deadline. It
// needs no model, so that whoever keeps the batches can answer the lines that no
// worker comes to. It is safe for concurrent use.
type LastResort struct {
	rungs  []rung
	models bool
	now    func() time.Time
}

// NewLastResort returns that of a ladder, nil where it has no text at the
// deadline. now defaults to time.Now.
func NewLastResort(c config.Ladder, now func() time.Time) (*LastResort, error) {
	l := &LastResort{now: now}
	if l.now == nil {
		l.now = time.Now
	}
	var problems []error
	texts := false
	for i, r := range c.Rungs {
		out := rung{Rung: r, index: i}
		if r.Model == "" && r.AtDeadline {
			var err error
			if out.presets, err = compilePresets(i, r); err != nil {
				problems = append(problems, fmt.Errorf("rung %d: %w", i+1, err))
			}
			texts = true
		}
		l.models = l.models || r.Model != "" && r.AtDeadline
		l.rungs = append(l.rungs, out)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("build the last resort of ladder %q: %w", c.Name, err)
	}
	if !texts {
		return nil, nil
	}
	return l, nil
}

// Opens returns when a line's texts are due: at its margin, or, while models are
// still called at the deadline, in the middle between that and the deadline.
func (l *LastResort) Opens(margin, deadline time.Time) time.Time {
	if l.models {
		return margin.Add(deadline.Sub(margin) / 2)
	}
	return margin
}

// Answer returns the text for a line, and false where there is none that fits it.
func (l *LastResort) Answer(r Request) (Answer, bool) {
	if !provider.HasText(r.Endpoint) {
		return Answer{}, false
	}
	m := matcher{endpoint: r.Endpoint, body: r.Body}
	for i := startOf(&r, len(l.rungs)); i < len(l.rungs); i++ {
		text := m.preset(&l.rungs[i])
		if text == nil || slices.Contains(r.Progress.RuledOut, i) {
			continue
		}
		s, err := render(text, r)
		if err != nil {
			continue // it does not fit the line
		}
		if a, err := textAnswer(&l.rungs[i], r, s, l.now()); err == nil {
			return a, true
		}
	}
	return Answer{}, false
}
