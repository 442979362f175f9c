package limit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// List returns every producer with calls in the last two hours, and all of them
// together as [AllProducers], by name, in two round trips.
func (g *GuardRedis) List(ctx context.Context) ([]GuardStatus, error) {
	names, err := g.rdb.ZRange(ctx, producersKey, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list guards: %w", err)
	}
	slices.Sort(names)
	names = append([]string{AllProducers}, names...)
	windows, _, now, err := g.read(ctx, names, nil)
	if err != nil {
		return nil, fmt.Errorf("list guards: %w", err)
	}
	list := make([]GuardStatus, len(names))
	for i, name := range names {
		list[i] = windows[i].status(name, g.limits(name), now)
	}
	return list, nil
}

// Room returns what is left to new lines of the producers and batches, in one
// round trip.
func (g *GuardRedis) Room(ctx context.Context, producers, batches []string) (Rooms, error) {
	names := append([]string{AllProducers}, producers...)
	windows, purses, _, err := g.read(ctx, names, batches)
	if err != nil {
		return Rooms{}, fmt.Errorf("read the guard's room: %w", err)
	}
	r := Rooms{All: windows[0].room(g.o.Global), Producers: map[string]Room{}, Batches: map[string]Room{}}
	for i, name := range producers {
		r.Producers[name] = windows[i+1].room(g.limits(name))
	}
	for i, id := range batches {
		if purses[i] != nil {
			r.Batches[id] = purses[i].room()
		}
	}
	return r, nil
}

func (g *GuardRedis) limits(name string) GuardLimits {
	if name == AllProducers {
		return g.o.Global
	}
	return g.o.of(name)
}

// read returns tidy copies of hours, what batches have of their own (nil:
// nothing), and the time.
func (g *GuardRedis) read(ctx context.Context, names, batches []string) ([]*window, []*purse, int64, error) {
	type parts struct {
		hour, dues *redis.MapStringStringCmd
		waits      *redis.ZSliceCmd
	}
	hours, purses := make([]parts, len(names)), make([]*redis.MapStringStringCmd, len(batches))
	p := g.rdb.Pipeline()
	clock := p.Time(ctx)
	for i, name := range names {
		k := hourKeys(name)
		hours[i] = parts{hour: p.HGetAll(ctx, k[0]), waits: p.ZRangeWithScores(ctx, k[1], 0, -1), dues: p.HGetAll(ctx, k[2])}
	}
	for i, id := range batches {
		purses[i] = p.HGetAll(ctx, purseKey(id))
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, nil, 0, err
	}
	now := clock.Val().UnixMilli()
	if ms, err := strconv.ParseInt(g.now(), 10, 64); err == nil {
		now = ms
	}
	windows := make([]*window, len(names))
	for i, h := range hours {
		windows[i] = decodeWindow(h.hour.Val(), h.waits.Val(), h.dues.Val())
		windows[i].tidy(now)
	}
	owns := make([]*purse, len(batches))
	for i, m := range purses {
		owns[i] = decodePurse(m.Val())
	}
	return windows, owns, now, nil
}

// number reads a field; what is missing or damaged is 0, as for the scripts.
func number(m map[string]string, field string) int64 {
	n, _ := strconv.ParseInt(m[field], 10, 64)
	return n
}

func decodeWindow(m map[string]string, waits []redis.Z, dues map[string]string) *window {
	w := &window{
		Calls: number(m, "c"), USD: number(m, "u"), Seq: number(m, "seq"), Opened: number(m, "opened"), Dear: number(m, "dear"),
		Released: number(m, "released"), ReleasedBy: m["released_by"],
	}
	for field := range m {
		minute, err := strconv.ParseInt(strings.TrimPrefix(field, "c"), 10, 64)
		if err == nil && field[0] == 'c' {
			w.Minutes = append(w.Minutes, guardMinute{minute, number(m, field), number(m, "u"+field[1:])})
		}
	}
	slices.SortFunc(w.Minutes, func(a, b guardMinute) int { return int(a.Minute - b.Minute) })
	for _, z := range waits {
		line, _ := z.Member.(string)
		w.Waiting = append(w.Waiting, turn{Line: line, Seq: int64(z.Score), Due: number(dues, line)})
	}
	return w
}

// decodePurse returns nil where a batch has nothing of its own.
func decodePurse(m map[string]string) *purse {
	if m["allowance"] == "" && m["budget"] == "" {
		return nil
	}
	return &purse{
		Allowance: number(m, "allowance"), Granted: number(m, "granted"), GrantedBy: m["granted_by"], GrantedAt: number(m, "granted_at"),
		Budget: number(m, "budget"), Spent: number(m, "spent"), Reserved: number(m, "reserved"),
	}
}
