package app

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/traces"
	"nightshift/tasks"
)

// tracer is what the environment asks for; nil: no traces.
func tracer(ctx context.Context, cfg *config.Config, version string, log *slog.Logger) (*traces.Tracer, error) {
	return traces.New(ctx, traces.Options{Version: version, Models: traced(cfg), Logger: log})
}

// traced is what traces say of the models.
func traced(cfg *config.Config) map[string]traces.Model {
	all := map[string]traces.Model{}
	for key, m := range cfg.Models {
		t := traces.Model{Name: m.Name, Provider: m.Provider}
		if u, err := url.Parse(m.BaseURL); err == nil {
			t.Host = u.Hostname()
			t.Port, _ = strconv.Atoi(u.Port())
			if t.Port == 0 {
				t.Port = map[string]int{"http": 80, "https": 443}[u.Scheme]
			}
		}
		t.Provider = wellKnown(cfg.Providers[m.Provider].API, t)
		all[key] = t
	}
	return all
}

// wellKnown is the conventions' name of a provider, where it has one, else its own.
func wellKnown(api string, m traces.Model) string {
	switch {
	case api == "anthropic" && m.Host == "api.anthropic.com":
		return "anthropic"
	case m.Host == "api.openai.com":
		return "openai"
	case strings.HasSuffix(m.Host, ".openai.azure.com"):
		return "azure.ai.openai"
	}
	return m.Provider
}

// traceable has the worker traced, where somebody asks for that. A nil *Tracer in
// the options would be somebody.
func (a *App) traceable(o tasks.Options) tasks.Options {
	if a.traces != nil {
		o.Tracer = a.traces
	}
	return o
}

// endTraces exports what is left of the traces.
func (a *App) endTraces() {
	if err := a.traces.Shutdown(); err != nil {
		a.opts.Logger.Warn("the last traces are lost", "error", err)
	}
}

// Submit submits a batch, as batch.Redis.Submit does, and traces that where the
// environment asks for traces.
func (c *Conn) Submit(ctx context.Context, d batch.Description, content *batch.Packed, s batch.Submission, log *slog.Logger) error {
	t, err := tracer(ctx, c.Config, Version(), log)
	if err != nil {
		return err
	}
	over := t.Submission(ctx, &d)
	err = c.Batches.Submit(ctx, d, content, s)
	over(err)
	if lost := t.Shutdown(); lost != nil {
		log.Warn("the trace of the submission is lost", "error", lost)
	}
	return err
}
