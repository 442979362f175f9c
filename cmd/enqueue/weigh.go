package main

import (
	"sync"

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

	mu   sync.Mutex
	work batch.Work
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

// add weighs lines. It may be called concurrently.
func (s *scale) add(lines []batch.Line) { s.weighAll(lines, 1, (*batch.Sum).Add) }

// remove takes lines that were weighed off the scale.
func (s *scale) remove(lines []batch.Line) { s.weighAll(lines, -1, (*batch.Sum).Remove) }

// turn puts the figures of a line into a sum, or takes them out of it.
type turn func(sum *batch.Sum, input, output int64, usd provider.USD)

func (s *scale) weighAll(lines []batch.Line, sign int64, put turn) {
	sizes := make([]ladder.Size, len(lines))
	for i, l := range lines {
		sizes[i] = ladder.SizeOf(l.Endpoint, l.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range lines {
		s.work.Lines += sign
		s.weigh(l, sizes[i], sign, put)
	}
}

// weigh weighs one line. It is thought to be answered by the first rung from where
// it starts that has its endpoint and takes its size.
func (s *scale) weigh(l batch.Line, size ladder.Size, sign int64, put turn) {
	begun, fits, large := false, false, false
	for i := min(l.Rung, len(s.rungs)-1); i < len(s.rungs); i++ {
		r, m, w := s.rungs[i], s.models[i], &s.work.Rungs[i]
		switch {
		case w.Text && provider.HasText(l.Endpoint):
			put(&w.All, 0, 0, 0)
			fits = true
			continue
		case w.Text, !provider.Serves(s.apis[i], l.Endpoint):
			continue
		}
		if size.TooLarge(r, m) {
			w.TooLarge += sign
			large = true
			continue
		}
		input, output := size.Tokens(r, m)
		usd := ladder.EstimatedCost(r, m, input, output)
		put(&w.All, input, output, usd)
		if !begun {
			put(&w.First, input, output, usd)
			begun, fits = true, true
		}
	}
	if large && !fits {
		s.work.TooLarge += sign
	}
}
