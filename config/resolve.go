package config

import (
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// silence is how long a rung of a tier may be silent by default: the tier
// numbers of the design.
func silence(tier string) time.Duration {
	switch tier {
	case "premium":
		return 30 * time.Second
	case "standard":
		return 20 * time.Second
	case "economy":
		return 15 * time.Second
	}
	return 10 * time.Second
}

// openAIBaseURL is the address of a provider named openai that gives none.
// Other providers must say where they are: prompts for a local model must not
// go to OpenAI because a line was forgotten.
const openAIBaseURL = "https://api.openai.com/v1"

// anthropicBaseURL is the address of a provider of Anthropic's API that gives
// none, whatever its name: nobody has this API without having asked for it.
const anthropicBaseURL = "https://api.anthropic.com"

func defaultBaseURL(p Provider) string {
	switch {
	case p.API == "anthropic":
		return anthropicBaseURL
	case p.Name == "openai":
		return openAIBaseURL
	}
	return ""
}

// resolve fills in what is inherited: from the provider, the tier and the
// breaker block. Relative paths start at dir.
func (d *decoder) resolve(cfg *Config, dir string) {
	if d.isSet(path{"redis", "url"}) {
		cfg.Redis.Source = FromFile
	} else {
		cfg.Redis.Source = FromDefault
	}
	if f := cfg.CallLog.File; f != "" && !filepath.IsAbs(f) {
		cfg.CallLog.File = filepath.Join(dir, f)
	}
	for name, p := range cfg.Providers {
		if p.BaseURL == "" {
			p.BaseURL = defaultBaseURL(p)
		}
		if p.APIKeyFile != "" && !filepath.IsAbs(p.APIKeyFile) {
			p.APIKeyFile = filepath.Join(dir, p.APIKeyFile)
		}
		if pl, ok := d.places[path{"providers", name, "breaker"}.id()]; ok && len(pl.node.entries) == 0 {
			p.Breaker = nil // {}: nothing of its own
		}
		if p.Breaker != nil {
			d.inheritBreaker(p.Breaker, cfg.Breaker, path{"providers", name, "breaker"})
		}
		cfg.Providers[name] = p
	}
	for _, file := range []*string{&cfg.Dashboard.TLS.CertFile, &cfg.Dashboard.TLS.KeyFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	for key, m := range cfg.Models {
		d.resolveModel(&m, cfg)
		cfg.Models[key] = m
	}
	for _, l := range cfg.Ladders {
		for i, r := range l.Rungs {
			if r.Model == "" {
				l.Rungs[i].Tries = 0 // a text is not called
			}
		}
	}
}

func (d *decoder) resolveModel(m *Model, cfg *Config) {
	provider, name, _ := strings.Cut(m.Key, "/")
	m.Provider = provider
	if m.Name == "" {
		m.Name = name
	}
	p := cfg.Providers[provider]
	if m.BaseURL == "" {
		m.BaseURL = p.BaseURL
	}
	if m.APIKeyEnv == "" {
		m.APIKeyEnv, m.APIKeyFile = p.APIKeyEnv, p.APIKeyFile
	}
	if m.FirstToken == 0 {
		m.FirstToken = min(silence(m.Tier), m.Timeout)
	}
	if m.Idle == 0 {
		m.Idle = min(silence(m.Tier), m.Timeout)
	}
	d.inheritBreaker(&m.Breaker, cfg.Breaker, path{"models", m.Key, "breaker"})
}

// inheritBreaker takes from the block what the file does not set at p.
func (d *decoder) inheritBreaker(own *Breaker, block Breaker, p path) {
	to, from := reflect.ValueOf(own).Elem(), reflect.ValueOf(block)
	for key, i := range fieldsOf(from.Type()) {
		if !d.isSet(p.child(key)) {
			to.Field(i).Set(from.Field(i))
		}
	}
}
