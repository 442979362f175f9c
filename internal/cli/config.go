package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"nightshift/config"
)

// LoadConfig reads the configuration that the flags name.
func (e *Env) LoadConfig(opts ...config.Option) (*config.Config, error) {
	opts = append(opts, config.WithRedis(e.Common.Redis))
	cfg, err := config.Load(e.Common.Config, opts...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Fail("`worker init` writes one to start from", noConfig(e.Common.Config))
	}
	if err != nil {
		return nil, err
	}
	e.zone = cfg.Location()
	return cfg, nil
}

// noConfig is a configuration that is not there.
type noConfig string

func (f noConfig) Error() string { return "there is no configuration " + string(f) }

// Unwrap returns [fs.ErrNotExist].
func (f noConfig) Unwrap() error { return fs.ErrNotExist }

// LoadRedis is LoadConfig for commands that only look: where no file is named
// and none is there, the Redis of the flag or the environment is enough.
func (e *Env) LoadRedis() (*config.Config, error) {
	url, source := e.Common.Redis, config.FromFlag
	if url == "" {
		url, source = os.Getenv(config.RedisEnv), config.FromEnvironment
	}
	if _, err := os.Stat(e.Common.Config); url == "" || e.Common.ConfigNamed() || err == nil {
		return e.shared(e.LoadConfig(config.WithoutKeys()))
	}
	r := config.Redis{URL: url, Source: source}
	if _, err := r.Target(); err != nil {
		return nil, Fail("write it as in redis://127.0.0.1:6379/0", fmt.Errorf("redis url (%s): %w", source, err))
	}
	return e.shared(&config.Config{Redis: r}, nil)
}

// LoadShared is LoadConfig for commands that meet others in one Redis.
func (e *Env) LoadShared(opts ...config.Option) (*config.Config, error) {
	return e.shared(e.LoadConfig(opts...))
}

// shared refuses an embedded Redis: no other process can reach it.
func (e *Env) shared(cfg *config.Config, err error) (*config.Config, error) {
	if err != nil {
		return nil, err
	}
	if t, err := cfg.Redis.Target(); err == nil && t.Kind == config.RedisEmbedded {
		return nil, Fail("name a Redis with --redis URL, or use `enqueue run`, which needs none",
			errors.New("an embedded Redis lives in one process and cannot be shared"))
	}
	return cfg, nil
}

// Time is a time as people read it, in the configured zone; "-" for none.
func (e *Env) Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.In(e.location()).Format("2006-01-02 15:04:05 MST")
}

// Clock is Time without the day where it is today.
func (e *Env) Clock(t, now time.Time) string {
	t, now = t.In(e.location()), now.In(e.location())
	if t.IsZero() || t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return e.Time(t)
	}
	return t.Format("15:04:05 MST")
}

// Zone is the short name of the zone in which times at t are told.
func (e *Env) Zone(t time.Time) string { return t.In(e.location()).Format("MST") }

// Stamp is the time of day, for lines that follow each other.
func (e *Env) Stamp(t time.Time) string { return t.In(e.location()).Format("15:04:05") }

func (e *Env) location() *time.Location {
	if e.zone == nil {
		return time.Local
	}
	return e.zone
}
