package limit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"nightshift/internal/convoy"
	"nightshift/internal/redistest"
)

// errDiffers ends a life in which a script and the steps say something else.
var errDiffers = errors.New("memory and redis differ")

// noticing is a test that fails by errDiffers.
type noticing struct{ rapid.TB }

// Fatal ends the life.
func (noticing) Fatal(args ...any) { panic(fmt.Errorf("%w: %s", errDiffers, fmt.Sprint(args...))) }

// Fatalf ends the life.
func (noticing) Fatalf(format string, args ...any) {
	panic(fmt.Errorf("%w: %s", errDiffers, fmt.Sprintf(format, args...)))
}

// Helper changes nothing.
func (noticing) Helper() {}

// noticed is how a life differed.
func noticed(life func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ours := r.(error); !ours || !errors.Is(e, errDiffers) {
				panic(r)
			}
			err = r.(error)
		}
	}()
	life()
	return nil
}

// guardLives leads a guard with such scripts through lives, and returns how it
// differed from the steps.
func guardLives(rdb redis.UniversalClient, scripts map[string]string) error {
	fresh := func() *guards {
		g := newGuards(rdb)
		g.scripts = scripts
		g.build()
		return g
	}
	if err := noticed(func() { fresh().forget(noticing{}) }); err != nil {
		return err
	}
	life := rapid.Custom(func(t *rapid.T) error { return noticed(func() { fresh().live(t, noticing{t}) }) })
	for seed := range 150 {
		if err := life.Example(seed); err != nil {
			return err
		}
	}
	return nil
}

// forget has a call that nobody settled asked for again, by the script that forgets it.
func (g *guards) forget(t rapid.TB) {
	g.rdb.FlushDB(context.Background())
	old, fresh := Charge{Producer: "ann", Batch: "b1", Ticket: "old", USD: 5}, Charge{Producer: "ann", Batch: "b1", Ticket: "fresh"}
	for _, list := range [][]Charge{{old}, {fresh, old}} {
		g.together(t, "reserve", list, func(c Charge) (func() error, func(*convoy.Party) func() error) {
			return func() error { return g.memory.Reserve(context.Background(), c) },
				func(p *convoy.Party) func() error { return g.redis.ReserveIn(p, c) }
		})
		g.same(t)
		g.now = g.now.Add(2 * GuardWindow)
	}
}

func TestEveryMutationOfTheGuardsScriptsIsNoticed(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	whole := func() map[string]string {
		return map[string]string{"lib": guardLibLua, "reserve": guardReserveLua, "settle": guardSettleLua, "reopen": guardReopenLua, "grant": guardGrantLua}
	}
	if err := guardLives(rdb, whole()); err != nil {
		t.Fatalf("the scripts as they are: %v", err)
	}
	for _, m := range guardMutations {
		t.Run(m.old, func(t *testing.T) {
			scripts := whole()
			if strings.Count(scripts[m.file], m.old) != 1 {
				t.Fatalf("guard_%s.lua does not hold exactly one %q", m.file, m.old)
			}
			scripts[m.file] = strings.Replace(scripts[m.file], m.old, m.broken, 1)
			if err := guardLives(rdb, scripts); err == nil {
				t.Errorf("nobody noticed %q", m.broken)
			}
		})
	}
}

var guardMutations = []mutation{
	{"lib", "if w.last and w.last > minute + SPAN then", "if false then"},
	{"lib", "minute = math.max(minute, w.last)", ""},
	{"lib", "math.min(minute - SPAN - 1, w.last)", "math.min(minute - SPAN, w.last)"},
	{"lib", "and h.at > w.released then", "then"},
	{"lib", "math.max(cost, -w.um)", "cost"},
	{"lib", "math.max(tonumber(v[1] or '0') - h.usd, 0)", "0"},
	{"settle", "math.max(purse.reserved - h.usd, 0)", "0"},
	{"reserve", "if held[ticket] then return 0 end", ""},
	{"reserve", "local minute = math.max(tidy(p), tidy(all))", "local minute = tidy(p)\ntidy(all)"},
	{"reserve", "+ GRACE >= now then return end", ">= now then return end"},
	{"reserve", "if h and h.minute < minute - SPAN then", "if false then"},
	{"reserve", "h.batch, h, h.usd)", "h.batch, h, 0)"},
	{"reserve", "local own = has_purse and allowance > 0", "local own = false"},
	{"reserve", "return redis.call('ZRANK', w.waits, line) or w.n", "return w.n"},
	{"reserve", "and not of_own and c + r >= l.c then", "and c + r >= l.c then"},
	{"reserve", "or (u <= 0 and r == 0)", ""},
	{"reserve", "if holds then rounds, r = math.floor(r / holds), r % holds end", ""},
	{"reserve", "math.max(now, (m + SPAN + 1) * 60000)", "(m + SPAN) * 60000"},
	{"reserve", "if w.opened ~= 0 then return 0 end", ""},
	{"reserve", "redis.call('HSET', w.key, 'dear', text(usd))", ""},
	{"reserve", "or (l.u > 0 and w.u >= l.u)", ""},
	{"reserve", "redis.call('HDEL', w.key, 'opened', 'dear')", "redis.call('HDEL', w.key, 'opened')"},
	{"reserve", "if spent + usd > budget then", "if false then"},
	{"reserve", "if spent + reserved + usd > budget then", "if false then"},
	{"reserve", "count(minute, own and not always)", "count(minute, own)"},
	{"reserve", "leave(p)\n  leave(all)", "leave(p)"},
	{"reserve", "if taken > 0 then redis.call('HINCRBY', PURSE, 'allowance', -taken) end", ""},
	{"reserve", "add(p, minute, own and 0 or 1, usd)", "add(p, minute, 1, usd)"},
	{"settle", "if #gone > 0 then redis.call('HDEL', HELD, unpack(gone)) end", ""},
	{"settle", "if not h.own then calls = -1 end", "calls = -1"},
	{"settle", "if unsent and h.own then purse", "if unsent then purse"},
	{"settle", "if h.batch ~= '' then book(h, usd, unsent) end", ""},
	{"reopen", "local seq = redis.call('HGET', KEYS[1], 'seq') or '0'", "local seq = '0'"},
	{"grant", "if was[1] == ARGV[2] and was[2] == ARGV[3] then return 0 end", ""},
	// of calls together
	{"lib", "flush(w)\n  local m = text(minute)", "local m = text(minute)"},
	{"reserve", "    flush(w)\n", ""},
	{"reserve", "  w.n = nil\n", ""},
	{"reserve", "held[list[i]] = nil", ""},
	{"reserve", "w.dear = usd", ""},
	{"reserve", "  w.opened = now\n  return 1\n", "  return 1\n"},
	{"reserve", "  w.opened = now\n  return 1, due", "  return 1, due"},
	{"reserve", "w.opened, w.dear = 0, 0", ""},
	{"reserve", "allowance, taken = allowance - 1, taken + 1", "taken = taken + 1"},
	{"reserve", "reserved, moved = reserved + usd, true", "moved = true"},
	{"settle", "held[ticket], gone[#gone + 1] = nil, ticket", "gone[#gone + 1] = ticket"},
}
