package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/tasks"
)

// Conn is what every command needs: the configuration and the state in Redis.
type Conn struct {
	Config   *config.Config
	Redis    *Redis
	Batches  *batch.Redis
	Breakers *breaker.Redis
	Parks    *limit.Redis
	Keys     []breaker.Key // of all models, by key
	Fleet    *tasks.Fleet
}

// pingLimit bounds the first answer of Redis: a person waits for it.
const pingLimit = 5 * time.Second

// Connect reaches Redis, or says that it cannot.
func Connect(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Conn, error) {
	return connect(ctx, cfg, log, nil)
}

func connect(ctx context.Context, cfg *config.Config, log *slog.Logger, hook func(breaker.Transition)) (*Conn, error) {
	r, err := OpenRedis(cfg.Redis)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(redisLog{log}) // the library's one logger; safe at any time
	state := r.State()
	ping, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if err := state.Ping(ping).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("reach redis at %s: %w", cfg.Redis, err), r.Close())
	}
	soon := r.Breaker()
	opts := []breaker.Option{breaker.WithLogger(log)}
	if hook != nil {
		opts = append(opts, breaker.OnTransition(hook))
	}
	return &Conn{
		Config: cfg, Redis: r,
		Batches:  batch.NewRedis(state, batch.Options{}),
		Breakers: breaker.NewRedis(soon, settings(cfg), opts...),
		Parks:    limit.NewRedis(soon),
		Keys:     keys(cfg),
		Fleet:    tasks.NewFleet(state),
	}, nil
}

// Close closes the connections.
func (c *Conn) Close() error { return c.Redis.Close() }
