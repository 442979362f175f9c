package tasks

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/keeper.lua
var keeperLua string

//go:embed lua/heartbeat.lua
var heartbeatLua string

const (
	keeperKey  = "nightshift:{fleet}:keeper"
	workersKey = "nightshift:{fleet}:workers"

	// keeperLease is how long a dead keeper keeps the role.
	keeperLease = 10 * time.Second
	// heartbeatAge is when a worker that said nothing is taken for dead.
	heartbeatAge = 10 * time.Second
	// heartbeatKept is how long a dead one is told of: who looks in the morning
	// sees what came and went lately, and workers that are killed every minute do
	// not pile up.
	heartbeatKept = time.Hour
)

// Fleet is what the workers of one Redis know of each other: heartbeats, and
// who is the keeper. It is safe for concurrent use.
type Fleet struct {
	rdb       redis.UniversalClient
	keeper    *redis.Script
	heartbeat *redis.Script
}

// NewFleet returns the fleet of a Redis.
func NewFleet(rdb redis.UniversalClient) *Fleet {
	return &Fleet{rdb, redis.NewScript(keeperLua), redis.NewScript(heartbeatLua)}
}

// Heartbeat is what a worker says of itself every second.
type Heartbeat struct {
	ID         string               `json:"id"`
	Host       string               `json:"host"`
	PID        int                  `json:"pid"`
	Version    string               `json:"version"`
	ConfigHash string               `json:"config_hash"`
	StartedAt  time.Time            `json:"started_at"`
	Queues     map[string]QueueBeat `json:"queues"`
}

// QueueBeat is one queue of a heartbeat.
type QueueBeat struct {
	Slots  int `json:"slots"`
	Active int `json:"active"`
	Begun  int `json:"begun"` // tasks begun in the last 2 s
}

// Member is a worker as the fleet knows it.
type Member struct {
	Heartbeat
	Silent time.Duration // since it said that
}

// Lost says that it said nothing for too long: it is dead, or cannot reach Redis.
func (m Member) Lost() bool { return m.Silent > heartbeatAge }

// Beat writes a heartbeat and returns those of all live workers.
func (f *Fleet) Beat(ctx context.Context, h Heartbeat) ([]Heartbeat, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode heartbeat: %w", err)
	}
	return f.live(ctx, h.ID, string(body))
}

// Leave removes a worker's heartbeat.
func (f *Fleet) Leave(ctx context.Context, id string) error {
	_, err := f.live(ctx, id, "")
	return err
}

// Workers returns the heartbeats of all live workers, by ID.
func (f *Fleet) Workers(ctx context.Context) ([]Heartbeat, error) { return f.live(ctx, "", "") }

// Members returns all workers, by ID, with those that were lost in the last hour.
// Who stopped as it should is none.
func (f *Fleet) Members(ctx context.Context) ([]Member, error) {
	return f.beat(ctx, "", "", heartbeatKept)
}

func (f *Fleet) live(ctx context.Context, id, body string) ([]Heartbeat, error) {
	members, err := f.beat(ctx, id, body, heartbeatAge)
	var live []Heartbeat
	for _, m := range members {
		live = append(live, m.Heartbeat)
	}
	return live, err
}

func (f *Fleet) beat(ctx context.Context, id, body string, shown time.Duration) ([]Member, error) {
	all, err := f.heartbeat.Run(ctx, f.rdb, []string{workersKey}, id, body, shown.Milliseconds(), heartbeatKept.Milliseconds()).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	var members []Member
	for ; len(all) >= 3; all = all[3:] {
		ms, err := strconv.ParseInt(all[1], 10, 64)
		m := Member{Silent: time.Duration(ms) * time.Millisecond}
		if err = errors.Join(err, json.Unmarshal([]byte(all[2]), &m.Heartbeat)); err != nil {
			return nil, fmt.Errorf("read heartbeat of %s: %w", all[0], err)
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members, nil
}

// KeeperLease is who has the role of the keeper, and until when unless it renews.
type KeeperLease struct {
	ID    string
	Until time.Time
}

// Keeper returns who is the keeper now; the zero KeeperLease: nobody is.
func (f *Fleet) Keeper(ctx context.Context) (KeeperLease, error) {
	var clock *redis.TimeCmd
	var lease *redis.SliceCmd
	if _, err := f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock, lease = p.Time(ctx), p.HMGet(ctx, keeperKey, "holder", "until")
		return nil
	}); err != nil {
		return KeeperLease{}, fmt.Errorf("read the keeper's lease: %w", err)
	}
	var l struct {
		Holder string `redis:"holder"`
		Until  int64  `redis:"until"`
	}
	if err := lease.Scan(&l); err != nil {
		return KeeperLease{}, fmt.Errorf("read the keeper's lease: %w", err)
	}
	if until := time.UnixMilli(l.Until); until.After(clock.Val()) {
		return KeeperLease{l.Holder, until.UTC()}, nil
	}
	return KeeperLease{}, nil
}

// Lead takes or renews the keeper's lease and returns its epoch; 0 means that
// another holds it. The epoch grows whenever the lease changes hands or lapsed.
func (f *Fleet) Lead(ctx context.Context, id string) (epoch int64, err error) {
	return f.lead(ctx, id, keeperLease)
}

// Led says whether a live process is the keeper.
func (f *Fleet) Led(ctx context.Context) (bool, error) {
	p := f.rdb.Pipeline()
	now, until := p.Time(ctx), p.HGet(ctx, keeperKey, "until")
	if _, err := p.Exec(ctx); errors.Is(err, redis.Nil) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("look for the keeper: %w", err)
	}
	ms, err := until.Int64()
	if err != nil {
		return false, fmt.Errorf("look for the keeper: %w", err)
	}
	return ms > now.Val().UnixMilli(), nil
}

// Resign gives the keeper's lease up, so that another can take it at once.
func (f *Fleet) Resign(ctx context.Context, id string) error {
	_, err := f.lead(ctx, id, 0)
	return err
}

func (f *Fleet) lead(ctx context.Context, id string, d time.Duration) (int64, error) {
	epoch, err := f.keeper.Run(ctx, f.rdb, []string{keeperKey}, id, d.Milliseconds(), "").Int64()
	if err != nil {
		return 0, fmt.Errorf("keeper's lease: %w", err)
	}
	return epoch, nil
}
