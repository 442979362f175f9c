package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/hours"
	"nightshift/limit"
	"nightshift/tasks"
)

// Conn is what every command needs: the configuration and the state in Redis.
type Conn struct {
	Config   *config.Config
	Redis    *Redis
	Batches  *batch.Redis
	Breakers *breaker.Redis
	Pacer    *limit.Redis
	Guard    *limit.GuardRedis
	Keys     []breaker.Key                      // of all models, by key
	Levels   []breaker.Key                      // of their parents, then of all models
	Numbers  func(breaker.Key) breaker.Settings // of each of them
	Fleet    *tasks.Fleet
	Deleter  *tasks.Deleter
	Queues   *tasks.Queues
	Night    *tasks.Night

	state redis.UniversalClient
	hours map[string]hours.Hours // of the queues
}

// pingLimit bounds the first answer of Redis: a person waits for it.
const pingLimit = 5 * time.Second

const (
	// loadLimit is for how long a Redis that loads its data is waited for: longer than
	// one with a night's batches takes.
	loadLimit = 2 * time.Minute
	// loadAgain is how often it is asked meanwhile.
	loadAgain = 500 * time.Millisecond
)

// ErrNoRedis: Redis does not answer.
var ErrNoRedis = errors.New("redis does not answer")

// noRedis is ErrNoRedis with its cause.
type noRedis struct{ error }

func (noRedis) Is(target error) bool { return target == ErrNoRedis }
func (e noRedis) Unwrap() error      { return e.error }

// Connect reaches Redis, or says that it cannot: then it returns [ErrNoRedis].
func Connect(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Conn, error) {
	return connect(ctx, cfg, log, hooks{})
}

// hooks are told of changes that this process makes. They may be nil.
type hooks struct {
	transition func(breaker.Transition)
	guard      func(limit.GuardChange)
	redis      func(connection string) redis.Hook
}

func connect(ctx context.Context, cfg *config.Config, log *slog.Logger, h hooks) (*Conn, error) {
	r, err := OpenRedis(cfg.Redis)
	if err != nil {
		return nil, err
	}
	r.times = h.redis
	redis.SetLogger(redisLog{log}) // the library's one logger; safe at any time
	state := r.State()
	if err := reach(ctx, state, log); err != nil {
		return nil, errors.Join(noRedis{fmt.Errorf("reach redis at %s: %w", cfg.Redis, err)}, r.Close())
	}
	soon := r.Breaker()
	c := &Conn{
		Config: cfg, Redis: r, Numbers: settings(cfg),
		Batches: batch.NewRedis(state, batch.Options{}),
		Pacer:   limit.NewRedis(soon, paceLimits(cfg)),
		Guard:   limit.NewGuardRedis(soon, guardOptions(cfg, h.guard)),
		Keys:    keys(cfg),
		Levels:  levels(keys(cfg)),
		Fleet:   tasks.NewFleet(state),
		Queues:  tasks.NewQueues(state),
		state:   state,
		hours:   queueHours(cfg),
	}
	c.Night = tasks.NewNight(state, c.Batches)
	c.Deleter = tasks.NewDeleter(state, c.Batches, c.Guard)
	c.Breakers = breaker.NewRedis(soon, c.Numbers, breaker.WithLogger(log), breaker.OnTransition(func(t breaker.Transition) {
		if h.transition != nil {
			h.transition(t)
		}
		if t.To == breaker.Closed {
			c.restart(t.Key, log)
		}
	}))
	return c, nil
}

// reach waits for the first answer of Redis: for pingLimit where nobody is there, and
// for loadLimit where it still reads its data, as after a restart.
func reach(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	for began, said := time.Now(), false; ; {
		ping, cancel := context.WithTimeout(ctx, pingLimit)
		err := rdb.Ping(ping).Err()
		cancel()
		if !redis.IsLoadingError(err) || time.Since(began) > loadLimit {
			return err
		}
		if !said {
			said = true
			log.Warn("redis still loads its data; waiting for it", "limit", loadLimit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(loadAgain):
		}
	}
}

// Ping says whether Redis answers.
func (c *Conn) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if err := c.state.Ping(ctx).Err(); err != nil {
		return noRedis{fmt.Errorf("reach redis at %s: %w", c.Config.Redis, err)}
	}
	return nil
}

// restartLimit bounds what a report that closes a breaker waits for the pace.
const restartLimit = 2 * time.Second

// restart has the models behind a breaker that closed start slowly.
func (c *Conn) restart(k breaker.Key, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), restartLimit)
	defer cancel()
	for _, m := range c.Keys {
		if m != k && m.Parent() != k {
			continue
		}
		if err := c.Pacer.Restart(ctx, paced(m)); err != nil {
			log.Warn("slow start of a model failed", "model", m.Model, "error", err)
		}
	}
}

// Status returns how far a batch is, with what it waits for as the breakers and
// guards are now; see batch.Redis.Status, batch.Status.AtDoors and AtGuards.
func (c *Conn) Status(ctx context.Context, id string) (batch.Status, error) {
	st, err := c.Batches.Status(ctx, id)
	if err != nil {
		return st, err
	}
	all := []batch.Status{st}
	err = errors.Join(c.settle(ctx, all), c.atPresent(ctx, all, c.doors(ctx)))
	return all[0], err
}

// List is Status for all batches, newest first; see batch.Redis.List for what
// comes back beside an error.
func (c *Conn) List(ctx context.Context) ([]batch.Status, error) { return c.list(ctx, c.doors(ctx)) }

func (c *Conn) list(ctx context.Context, d doors) ([]batch.Status, error) {
	all, unread := c.Batches.List(ctx)
	return all, errors.Join(unread, c.settle(ctx, all), c.atPresent(ctx, all, d))
}

// live is List for the batches that have not ended, oldest first.
func (c *Conn) live(ctx context.Context, d doors) ([]batch.Status, error) {
	all, unread := c.Batches.Live(ctx)
	return all, errors.Join(unread, c.atPresent(ctx, all, d))
}

// doors are the breakers and guards as they are now.
type doors struct {
	breakers func() ([]breaker.Status, error)
	guards   func() ([]limit.GuardStatus, error)
}

// doors reads each of them once, when it is first asked for.
func (c *Conn) doors(ctx context.Context) doors {
	return doors{
		sync.OnceValues(func() ([]breaker.Status, error) { return c.Breakers.List(ctx, c.Levels) }),
		sync.OnceValues(func() ([]limit.GuardStatus, error) { return c.Guard.List(ctx) }),
	}
}

// atPresent tells what lines wait for by the hours and pauses of their queues, and by
// the breakers and guards as they are now.
func (c *Conn) atPresent(ctx context.Context, all []batch.Status, d doors) error {
	breakers, err := d.breakers()
	guards, guardErr := d.guards()
	queues, queueErr := c.Queues.States(ctx, c.Config.QueueNames())
	now := time.Now()
	for i := range all {
		if q := queues[all[i].Queue]; q.Paused != nil {
			all[i].AtPause(q.Paused.By, q.Active)
		}
		all[i].AtHours(c.hours[all[i].Queue], now)
		all[i].AtDoors(breakers)
		if guardErr == nil { // else it is not known that none is open
			all[i].AtGuards(guards)
		}
	}
	return errors.Join(err, guardErr, queueErr)
}

// loads returns what the queues have before them.
func (c *Conn) loads(ctx context.Context) (map[string]batch.Load, error) {
	backlogs, unread := c.Batches.Backlogs(ctx)
	all, err := c.Batches.List(ctx)
	now := time.Now()
	loads := batch.Loads(backlogs, all, now)
	for queue, l := range loads {
		if !c.hours[queue].Open(now) {
			l.Runnable = 0
			loads[queue] = l
		}
	}
	return loads, errors.Join(unread, err)
}

// Close closes the connections.
func (c *Conn) Close() error { return c.Redis.Close() }
