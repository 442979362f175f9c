package main

import (
	"nightshift/batch"
	"nightshift/config"
	"nightshift/ladder"
)

// scale weighs the lines of a file: what they ask of each rung of a ladder, as
// it is estimated.
type scale struct {
	rungs  []config.Rung
	models []config.Model // of the rungs
	work   batch.Work
}

func newScale(cfg *config.Config, q config.Queue) *scale {
	s := &scale{rungs: cfg.Ladders[q.Ladder].Rungs}
	for _, r := range s.rungs {
		m := cfg.Models[r.Model]
		s.models = append(s.models, m)
		w := batch.RungWork{Model: r.Model, Priced: r.Price != nil || m.Price != nil}
		if r.Model == "" {
			w = batch.RungWork{Model: ladder.TextModel, Text: true, Priced: true}
		}
		s.work.Rungs = append(s.work.Rungs, w)
	}
	return s
}

// add weighs one line. It is thought to be answered by the first rung from where
// it starts that takes its size.
func (s *scale) add(l batch.Line) {
	s.work.Lines++
	size := ladder.SizeOf(l.Endpoint, l.Body)
	begun := false
	for i := min(l.Rung, len(s.rungs)-1); i < len(s.rungs); i++ {
		r, m, w := s.rungs[i], s.models[i], &s.work.Rungs[i]
		if w.Text {
			w.All.Add(0, 0, 0)
			continue
		}
		if size.TooLarge(r, m) {
			w.TooLarge++
			continue
		}
		input, output := size.Tokens(r, m)
		usd := ladder.EstimatedCost(r, m, input, output)
		w.All.Add(input, output, usd)
		if !begun {
			w.First.Add(input, output, usd)
			begun = true
		}
	}
}

// weighed reads lines and weighs each that is one.
type weighed struct {
	*batch.Reader
	scale *scale
}

// Next implements batch.Source.
func (w weighed) Next() (batch.Line, []byte, error) {
	l, raw, err := w.Reader.Next()
	if err == nil {
		w.scale.add(l)
	}
	return l, raw, err
}
