package breaker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// mutations break the scripts, each in one place. That the comparison with Step
// notices every one of them is what makes its silence worth something.
var mutations = []struct{ name, old, broken string }{
	// record.lua
	{"a lapsed lease lives on", "if now >= rec.lease_until then", "if false then"},
	{"a lease lapses late", "if now >= rec.lease_until then", "if now > rec.lease_until then"},
	{"a clock stepped back lengthens the cooldown", "rec.open_until = math.min(rec.open_until, now + max_cooldown)", ""},
	{"a clock stepped back lengthens the lease", "rec.lease_until = math.min(rec.lease_until, now + probe_lease)", ""},
	{"a clock stepped back keeps it wanted", "rec.wanted = math.min(rec.wanted, now + wanted_for)", ""},
	{"work that gave up is remembered", "if rec.wanted <= now then rec.wanted = 0 end", ""},
	{"epochs stand still", "rec.epoch = rec.epoch + 1", ""},
	{"the history is one too long", "if n == HISTORY then", "if n > HISTORY then"},
	{"seen tickets survive a transition", "rec.seen = ''", ""},
	{"a Retry-After survives a transition", "rec.not_before = 0\n  local lines", "local lines"},
	{"the due set is not kept", "redis.call('ZADD', due, text(due_at()), member)", ""},
	{"the due set keeps the closed", "redis.call('ZREM', due, member)", ""},
	{"the record expires at once", "local id, probe, member, ttl = ARGV[2], ARGV[3] == '1', ARGV[4], ARGV[5]", "local id, probe, member, ttl = ARGV[2], ARGV[3] == '1', ARGV[4], 1000"},
	// admit.lua
	{"rejections want no probe", "if rec.wanted < now + wanted_for / 2 then rec.wanted = now + wanted_for end", ""},
	{"a rejection forgets the probe's lease", "math.max(rec.open_until - now, 0) + probe_lease", "math.max(rec.open_until - now, 0)"},
	{"a wait becomes negative", "math.max(rec.open_until - now, 0)", "rec.open_until - now"},
	{"two probes at once", "if rec.lease_id ~= '' then return reject() end", ""},
	{"a repeated probe is turned away", "if rec.lease_id == id then", "if false then"},
	{"a probe before its time", " or due_at() > now then", " then"},
	{"a probe that nobody wants", "if rec.wanted <= now or due_at() > now", "if due_at() > now"},
	{"a probe that changes no state", "if rec.state == 'open' then c = change", "if false then c = change"},
	{"a new record has the epoch of a lost one", "rec.state, rec.epoch = 'closed', math.max(now, 1)", "rec.state, rec.epoch = 'closed', 1"},
	// report.lua
	{"late results count", "rec.epoch ~= epoch or string.find", "string.find"},
	{"repeats count", " or string.find(rec.seen, id, 1, true) then", " then"},
	{"one ticket too few is remembered", "-17 * remembered", "-17 * (remembered - 1)"},
	{"no evidence counts", "if outcome ~= SUCCESS and outcome ~= FAILURE then", "if outcome ~= SUCCESS and outcome ~= FAILURE and outcome ~= LIMITED then"},
	{"it trips one failure late", "failed >= failures", "failed > failures"},
	{"it does not wait for min_results", "results >= min_results and ", ""},
	{"results never get stale", "while first <= #at and at[first] < oldest do", "while false do"},
	{"results get stale a moment early", "at[first] < oldest", "at[first] <= oldest"},
	{"automatic stale is never stretched", "if n < window then return stale_max end", "if n < window then return stale_min end"},
	{"automatic stale ignores the pace", "math.max(math.floor(span * n / (n - 1)), stale_min)", "stale_min"},
	{"the window grows", "first = math.max(first, #at - window + 2)", ""},
	{"results of the future stay there", "if #at > 0 and at[#at] > now then", "if false then"},
	{"a success keeps the Retry-After", "if outcome == SUCCESS then\n    rec.not_before = 0", "if outcome == SUCCESS then"},
	{"the last Retry-After wins, not the later time", "rec.not_before = math.max(rec.not_before, now + retry_after)", "rec.not_before = now + retry_after"},
	{"Retry-After does not lengthen", "rec.open_until = math.max(now + length, rec.not_before)", "rec.open_until = now + length"},
	{"a hard condition is an ordinary one", "c = open(max_cooldown, reason)", "c = open(cooldown, reason)"},
	{"a probe's ticket is not checked", "rec.lease_id ~= id or ", ""},
	{"a probe's epoch is not checked", " or rec.epoch ~= epoch then return reply(IGNORED, {}) end\n  if outcome == SUCCESS", " then return reply(IGNORED, {}) end\n  if outcome == SUCCESS"},
	{"a rate-limited probe reopens", "if outcome == SUCCESS or outcome == LIMITED then", "if outcome == SUCCESS then"},
	{"cooldowns do not double", "2 * rec.cooldown", "rec.cooldown"},
	{"cooldowns have no cap", "math.min(length, max_cooldown), why", "length, why"},
	{"no evidence doubles the cooldown", "local length, why = rec.cooldown, rec.reason", "local length, why = 2 * rec.cooldown, rec.reason"},
	{"closing keeps the ring", "rec.ring, rec.reason = '', ''", "rec.reason = ''"},
	{"closing keeps it wanted", "rec.open_until, rec.cooldown, rec.wanted = 0, 0, 0", "rec.open_until, rec.cooldown = 0, 0"},
}

// directed are trials of what random ones seldom come to.
func directed() []trial {
	do := func(later time.Duration, what string, o Outcome) step {
		return step{Do: what, Later: later, Report: Report{Outcome: o}}
	}
	remembered := trial{Settings: []Settings{Settings{}.WithDefaults()}}
	for range 70 {
		remembered.Steps = append(remembered.Steps, do(time.Second, "call", Success))
	}
	for i := range 70 {
		remembered.Steps = append(remembered.Steps, step{Do: "report", Pick: i, Report: Report{Outcome: Success}})
	}
	return []trial{
		remembered,
		{ // a window of three takes 8 minutes: the result of 10 minutes ago counts
			Settings: []Settings{Settings{Window: 3, Failures: 3}.WithDefaults()},
			Steps: []step{
				do(0, "call", Success), do(4*time.Minute, "call", Failure),
				do(4*time.Minute, "call", Failure), do(6*time.Minute, "call", Failure),
			},
		},
		{ // the same ticket id has the lease in two epochs
			Settings: []Settings{Settings{Window: 1}.WithDefaults()},
			Steps: []step{
				do(0, "call", Failure), do(0, "admit", None), do(time.Minute, "probe", None),
				do(0, "report probe", Failure), do(time.Minute, "probe again", None), do(0, "report old", Success),
			},
		},
		{ // five rounds are ten transitions and more
			Settings: []Settings{Settings{Window: 1}.WithDefaults()},
			Steps: append([]step{do(0, "call", Failure), do(0, "admit", None)}, slices.Repeat([]step{
				do(5*time.Minute, "probe", None), do(0, "report probe", Failure), do(0, "admit", None),
			}, 6)...),
		},
	}
}

// firstMismatch returns how many trials the store passed, and what it failed.
func firstMismatch(store *Redis, random int) (int, error) {
	trials := directed()
	for i, tr := range trials {
		if err := runTrial(store, tr); err != nil {
			return i, err
		}
	}
	for seed := range random {
		if err := runTrial(store, genTrial.Example(seed)); err != nil {
			return len(trials) + seed, err
		}
	}
	return 0, nil
}

func TestEveryMutationOfTheScriptsIsNoticed(t *testing.T) {
	rdb := redistest.Client(t)
	const trials = 400
	if n, err := firstMismatch(NewRedis(rdb, nil), trials); err != nil {
		t.Fatalf("the scripts as they are fail trial %d: %v", n, err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			admit, report := recordLua+admitLua, recordLua+reportLua
			if strings.Count(recordLua+admitLua+reportLua, m.old) != 1 {
				t.Fatalf("the scripts do not hold exactly one %q", m.old)
			}
			broken := newRedis(rdb, nil, strings.Replace(admit, m.old, m.broken, 1), strings.Replace(report, m.old, m.broken, 1), nil)
			n, err := firstMismatch(broken, trials)
			if err == nil {
				t.Fatalf("nobody noticed: %q instead of %q", m.broken, m.old)
			}
			t.Logf("noticed by trial %d: %v", n, err)
		})
	}
}
