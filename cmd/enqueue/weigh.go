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
func (s *scale) add(lines []batch.Line) {
	sizes := make([]ladder.Size, len(lines))
	for i, l := range lines {
		sizes[i] = ladder.SizeOf(l.Endpoint, l.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range lines {
		s.weigh(l, sizes[i])
	}
}

// weigh weighs one line. It is thought to be answered by the first rung from where
// it starts that has its endpoint and takes its size.
func (s *scale) weigh(l batch.Line, size ladder.Size) {
	s.work.Lines++
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
