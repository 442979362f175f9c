package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/cli"
	"nightshift/provider"
)

// models says at which rung of a queue's ladder a line starts whose body names
// a model.
type models struct {
	cfg    *config.Config
	ladder string
	ignore bool // all lines start at the first rung

	named, unknown atomic.Int64 // lines of the last reading, unless they are ignored
}

func newModels(cfg *config.Config, q config.Queue, ignore bool) *models {
	return &models{cfg: cfg, ladder: q.Ladder, ignore: ignore}
}

// rung is that of a Reader, which calls it from several goroutines.
func (m *models) rung(name string) (int, bool) {
	m.named.Add(1)
	if m.ignore {
		return 0, true
	}
	i, ok := m.cfg.RungOf(m.ladder, name)
	if !ok {
		m.unknown.Add(1)
	}
	return i, ok
}

// serves is that of a Reader: whether a model of the ladder, from a rung on, has
// an endpoint. A ladder of texts alone has those whose answers are texts.
func (m *models) serves(endpoint string, rung int) error {
	rungs := m.cfg.Ladders[m.ladder].Rungs
	var others []string
	for _, r := range rungs[min(rung, len(rungs)):] {
		if r.Model == "" {
			continue
		}
		name := m.cfg.Models[r.Model].Provider
		if provider.Serves(m.cfg.Providers[name].API, endpoint) {
			return nil
		}
		if !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	switch {
	case len(others) > 0:
		return fmt.Errorf("%q is served by no model that the line can come to in ladder %s; the API of %s has %s",
			endpoint, m.ladder, strings.Join(others, " and of "), provider.ChatCompletions)
	case !provider.HasText(endpoint):
		return fmt.Errorf("%q cannot be answered by the texts of ladder %s", endpoint, m.ladder)
	}
	return nil
}

// badInput words the errors of a file of requests.
func (m *models) badInput(err error) error {
	var lines *batch.LineErrors
	var line *batch.LineError
	switch {
	case !errors.As(err, &lines) && !errors.As(err, &line):
		return err
	case m.unknown.Load() > 0:
		return cli.Fail(fmt.Sprintf("nothing was enqueued; the models of ladder %s are: %s; --ignore-model starts every line at its first rung",
			m.ladder, strings.Join(m.cfg.RungModels(m.ladder), ", ")), err)
	}
	return cli.Fail("nothing was enqueued; mend the file and submit it again", err)
}
