package dashboard

import (
	"context"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

// Doors are the breakers and the guards as they are now, read when they are first
// asked for: a page that shows them beside batches, which wait for them, reads them
// once.
type Doors struct {
	Breakers func() ([]breaker.Status, error)
	Guards   func() ([]limit.GuardStatus, error)
}

// Batches is what the dashboard needs of package batch.
type Batches interface {
	// List returns all batches, newest first, with what they wait for at those doors;
	// beside an error those that could be read.
	List(ctx context.Context, doors Doors) ([]batch.Status, error)
	// Status is List for one batch; batch.ErrNotFound: there is none.
	Status(ctx context.Context, id string) (batch.Status, error)
	// Recent returns how the lines ended that ended last, the newest first.
	Recent(ctx context.Context, id string, n int) ([]batch.EndedLine, error)
	// Why returns what became of one line, or batch.ErrNotFound.
	Why(ctx context.Context, id string, line int64) (batch.Story, error)
	// Request returns a line as it was submitted, or batch.ErrNotFound.
	Request(ctx context.Context, ref batch.Ref) (batch.Line, error)
	// Record returns the result of one line, or batch.ErrNotFound.
	Record(ctx context.Context, id string, line int64) (batch.Record, error)
}

// Breakers is what the dashboard needs of package breaker.
type Breakers interface {
	// List returns the state of the given breakers, in their order.
	List(ctx context.Context, keys []breaker.Key) ([]breaker.Status, error)
}

// Guards is what the dashboard needs of package limit.
type Guards interface {
	// List returns the hourly guards of producers, and that of all of them.
	List(ctx context.Context) ([]limit.GuardStatus, error)
}

// Paces is what the dashboard needs of package limit about models.
type Paces interface {
	// List returns how fast the models are called, in their order.
	List(ctx context.Context, models []limit.Model) ([]limit.Pace, error)
}

// Figures are what calls to a model came to lately, in the whole fleet.
type Figures struct {
	Known   bool          // it was called
	Success float64       // share of the calls that were answered, an exponential average
	Latency time.Duration // of answers, likewise; 0: none yet
}

// Averages tells the figures by which ladders order their models.
type Averages interface {
	// Figures returns those of models, in their order.
	Figures(ctx context.Context, models []breaker.Key) ([]Figures, error)
}

// Fleet tells who works.
type Fleet interface {
	// Fleet returns the workers, the queues of the configuration and the keeper.
	Fleet(ctx context.Context) (FleetStatus, error)
}

// FleetStatus is the fleet as people see it.
type FleetStatus struct {
	KeeperID    string // "": nobody is
	KeeperUntil time.Time
	ConfigHash  string // of this process
	Workers     []Worker
	Queues      []Queue
}

// Worker is one worker process.
type Worker struct {
	ID, Host, Version, ConfigHash string
	PID                           int
	StartedAt                     time.Time
	Silent                        time.Duration // since it said something
	Lost                          bool          // it is dead, or cannot reach Redis
	Queues                        []WorkerQueue // by name
}

// WorkerQueue is what a worker has in hand of a queue.
type WorkerQueue struct {
	Name          string
	Slots, Active int
}

// Queue is a queue of the configuration in the whole fleet.
type Queue struct {
	Name, Ladder           string
	Workers, Slots, Active int
	Out, Waiting           int64     // lines that are released, and that sleep of those
	Backlog                int64     // lines that are not released
	Paused                 bool      // by a person
	PausedBy               string    // "": nobody knows
	Open                   bool      // by its hours
	Until                  time.Time // when its hours change that; zero: never
}

// Minute is what the fleet finished in one minute.
type Minute struct {
	At          time.Time // its beginning
	Lines       int64     // that ended
	Calls       int64
	Cost, Waste provider.USD
}

// Minutes tells how the night went.
type Minutes interface {
	// Minutes returns the minutes since a time that something ended or was paid in,
	// the oldest first.
	Minutes(ctx context.Context, since time.Time) ([]Minute, error)
}

// Ladder is a ladder of the configuration and the queues that climb it.
type Ladder struct {
	config.Ladder
	Queues []string
}

// Changes is what people may do from the pages.
type Changes interface {
	// Force opens, closes or resets a breaker.
	Force(ctx context.Context, key breaker.Key, f breaker.Force) error
	// Release sets what a producer's guard has counted to nothing.
	Release(ctx context.Context, producer, by string) error
	// Cancel ends a batch, or returns batch.ErrNotFound.
	Cancel(ctx context.Context, id string) error
	// Retry takes failed and expired lines of a batch back and returns how many; see
	// batch.Redis.Retry for its errors.
	Retry(ctx context.Context, id string, r batch.Retry, progress func(looked, all int64)) (int64, error)
}
