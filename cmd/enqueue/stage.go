package main

import (
	"errors"
	"io/fs"

	"nightshift/config"
	"nightshift/internal/cli"
)

// stage is where a run takes place: with the configuration's providers, or with
// the simulator.
type stage struct {
	cfg      *config.Config
	embedded bool   // Redis is in this process
	close    func() // ends what was started
	after    func() // says the last word
}

func (p *program) setUp(f runFlags) (*stage, error) {
	if f.rehearse {
		return p.rehearse()
	}
	cfg, err := p.LoadConfig()
	if err != nil {
		return nil, orRehearse(err)
	}
	st := &stage{cfg: cfg, close: func() {}, after: func() {}}
	if cfg.Redis.Source == config.FromDefault || cfg.Redis.Source == "" {
		cfg.Redis.URL = "embedded"
	}
	if t, err := cfg.Redis.Target(); err == nil {
		st.embedded = t.Kind == config.RedisEmbedded
	}
	return st, nil
}

// orRehearse names the ways on where there is no configuration.
func orRehearse(err error) error {
	var e *cli.Error
	if errors.As(err, &e) && errors.Is(err, fs.ErrNotExist) {
		return cli.Fail("with --rehearse none is needed; `worker init` writes one to start from", e.Err)
	}
	return err
}
