package main

import (
	"nightshift/batch"
	"nightshift/config"
	"nightshift/ladder"
	"nightshift/provider"
)

// scale weighs the lines of a file: what they ask of each rung of a ladder, as
// it is estimated.
type scale struct {
	rungs  []config.Rung
	models []config.Model // of the rungs
	apis   []string       // of their providers
	work   batch.Work
}

func newScale(cfg *config.Config, q config.Queue) *scale {
	s := &scale{rungs: cfg.Ladders[q.Ladder].Rungs}
	for _, r := range s.rungs {
		m := cfg.Models[r.Model]
		s.models = append(s.models, m)
		s.apis = append(s.apis, cfg.Providers[m.Provider].API)
		w := batch.RungWork{Model: r.Model, Priced: r.Price != nil || m.Price != nil}
		if r.Model == "" {
			w = batch.RungWork{Model: ladder.TextModel, Text: true, Priced: true}
		}
		s.work.Rungs = append(s.work.Rungs, w)
	}
	return s
}

// add weighs one line. It is thought to be answered by the first rung from where
// it starts that has its endpoint and takes its size.
func (s *scale) add(l batch.Line) {
	s.work.Lines++
	size := ladder.SizeOf(l.Endpoint, l.Body)
	begun := false
	for i := min(l.Rung, len(s.rungs)-1); i < len(s.rungs); i++ {
		r, m, w := s.rungs[i], s.models[i], &s.work.Rungs[i]
		switch {
		case w.Text && provider.HasText(l.Endpoint):
			w.All.Add(0, 0, 0)
			continue
		case w.Text, !provider.Serves(s.apis[i], l.Endpoint):
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
