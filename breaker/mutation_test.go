package breaker

import (
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// mutations break the scripts, each in one place. That the comparison with Step
// notices every one of them is what makes its silence worth something.
var mutations = []struct{ name, old, broken string }{
	// record.lua
	{"a lapsed lease lives on", "if ms > now then left = left", "if true then left = left"},
	{"a lease lapses late", "if ms > now then left = left", "if ms >= now then left = left"},
	{"a clock stepped back lengthens the cooldown", "if hold ~= 'open' then l.open_until = math.min(l.open_until, now + l.max_cooldown) end", ""},
	{"a hold is cut to a cooldown", "if hold ~= 'open' then l.open_until", "if true then l.open_until"},
	{"a hold never ends", "then l.hold, hold = '', nil end", "then hold = nil end"},
	{"a hold for good expires", "redis.call('PERSIST', l.key)", "redis.call('PEXPIRE', l.key, text(l.ttl))"},
	{"a clock stepped back lengthens the lease", "ms = math.min(tonumber(ms), now + l.probe_lease)", "ms = tonumber(ms)"},
	{"a clock stepped back keeps it wanted", "l.wanted = math.min(l.wanted, now + l.wanted_for)", ""},
	{"a clock stepped back keeps a model wanted", "ms = math.min(tonumber(ms), now + l.wanted_for)", "ms = tonumber(ms)"},
	{"a clock stepped back lengthens a Retry-After", "l.not_before = math.min(l.not_before, now + l.max_cooldown)\n  l.wanted", "l.wanted"},
	{"work that gave up is remembered", "if l.wanted <= now then l.wanted = 0 end", ""},
	{"a round that nobody can finish", "if left == '' and ended(l) >= l.round then", "if false then"},
	{"one probe too many in flight", "return out < l.probes and", "return out <= l.probes and"},
	{"one probe too many in a round", "ended(l) + out < l.round", "ended(l) + out <= l.round"},
	{"a round is as long as the probes in flight", "l.round = math.max(l.probes, l.need)", "l.round = l.probes"},
	{"epochs stand still", "l.epoch = l.epoch + 1", ""},
	{"the history is one too long", "if n == HISTORY then", "if n > HISTORY then"},
	{"seen tickets survive a transition", "l.seen, l.leases, l.not_before = '', '', 0", "l.leases, l.not_before = '', 0"},
	{"leases survive a transition", "l.seen, l.leases, l.not_before = '', '', 0", "l.seen, l.not_before = '', 0"},
	{"a Retry-After survives a transition", "l.seen, l.leases, l.not_before = '', '', 0", "l.seen, l.leases = '', ''"},
	{"rounds add up", "l.good, l.bad, l.void = 0, 0, 0\n  local lines", "local lines"},
	{"the due set is not kept", "redis.call('ZADD', due, text(due_at(l)), l.member)", ""},
	{"the due set keeps the closed", "redis.call('ZREM', due, l.member)", ""},
	{"the record expires at once", "redis.call('PEXPIRE', l.key, text(l.ttl))", "redis.call('PEXPIRE', l.key, 1000)"},
	{"closing keeps the ring", "l.ring, l.reason, l.wants = '', '', ''", "l.reason, l.wants = '', ''"},
	{"closing keeps it wanted", "l.open_until, l.cooldown, l.wanted, l.task_next = 0, 0, 0, 0", "l.open_until, l.cooldown, l.task_next = 0, 0, 0"},
	{"closing keeps the task's turn", "l.open_until, l.cooldown, l.wanted, l.task_next = 0, 0, 0, 0", "l.open_until, l.cooldown, l.wanted = 0, 0, 0"},
	{"Retry-After does not lengthen", "l.open_until = math.max(now + length, l.not_before)", "l.open_until = now + length"},
	// closed.lua
	{"an open parent lets calls through", "if m[1] == 'closed' and p[1] == 'closed' then", "if m[1] == 'closed' then"},
	{"the parent's epoch is not told", "tonumber(m[2]), tonumber(p[2])", "tonumber(m[2]), 0"},
	{"a prober is admitted like a call", "if not probing then", "if true then"},
	// admit.lua
	{"rejections want no probe", "if not closed(m) and m.wanted < now + m.wanted_for / 2 then m.wanted = now + m.wanted_for end", ""},
	{"rejections want no probe of the parent", "if fresh then p.wanted = now + p.wanted_for end", ""},
	{"each rejection is a write", "if tonumber(ms) < now + p.wanted_for / 2 then", "if true then"},
	{"a rejection forgets the probe's lease", "then r.retry_after = r.retry_after + l.probe_lease end", "then r.retry_after = r.retry_after end"},
	{"a wait becomes negative", "math.min(math.max(l.open_until - now, 0), l.max_cooldown)", "math.min(l.open_until - now, l.max_cooldown)"},
	{"a hold makes waits of years", "math.min(math.max(l.open_until - now, 0), l.max_cooldown)", "math.max(l.open_until - now, 0)"},
	{"a rejection points at the first lease's end", "r.till = last", "r.till = n and select(2, leases(l))"},
	{"the parent hides a longer wait", "if of_model.retry_after > r.retry_after then r = of_model end", ""},
	{"two probes at once", "if l.leases ~= '' and not free(l) then return reject(false) end", ""},
	{"a repeated probe is turned away", "if till then return grant(l, tonumber(till) - now) end", ""},
	{"a probe before its time", "l.wanted <= now or due_at(l) > now then return reply(NOT_DUE, {}) end", "l.wanted <= now then return reply(NOT_DUE, {}) end"},
	{"a probe that nobody wants", "if task_probes(l) or l.wanted <= now or due_at(l) > now", "if task_probes(l) or due_at(l) > now"},
	{"a prober takes the task's probe", "if task_probes(l) or l.wanted <= now", "if l.wanted <= now"},
	{"a probe that changes no state", "if l.state == 'open' then change(l, 'half_open', 'probe') end", ""},
	{"the model is probed under an open parent", "if not closed(p) then l = p end", ""},
	{"probes of a parent do not rotate", "if l == p and turn() ~= model then return reply(NOT_DUE, {}) end", ""},
	{"a parent is probed through a model that is held open", "if l == p and held(m) == 'open' then", "if false then"},
	{"a model that is held open keeps its turn", "    p.probed = model\n    return reply(NOT_DUE, {})", "    return reply(NOT_DUE, {})"},
	{"the rotation stands still", "if l == p then p.probed = model end", ""},
	{"a task probes through a model that is open", "local good = closed(m) or due_at(m) <= now", "local good = true"},
	{"a task probes before its time", "and due_at(p) <= now then return lend(p) end", "then return lend(p) end"},
	{"a call that may not probe does", "mode == 'call' and task_probe()", "task_probe()"},
	{"a new record has the epoch of a lost one", "l.state, l.epoch = 'closed', math.max(now, 1)", "l.state, l.epoch = 'closed', 1"},
	// report.lua
	{"late results count", "l.epoch ~= l.ticket or saw(l) then", "saw(l) then"},
	{"repeats count", " or saw(l) then", " then"},
	{"repeats of successes count", "if known[id] or saw(quick) or saw(quick_parent) then return false end", ""},
	{"repeats beside each other count", "if known[id] or", "if"},
	{"a ticket is seen in two others", "until not from or from % TICKET == 1", "until true"},
	{"late successes count", "quick.epoch ~= ARGV[arg + 3] or", ""},
	{"late successes count with the parent", "or quick_parent.epoch ~= ARGV[arg + 6]", ""},
	{"a hold is not looked at", " or v[3] and v[3] ~= '' then return end", " then return end"},
	{"a success that only the model counts", "if not quick_parent or", "if quick and not quick_parent then counted = {id} write(quick) counted = {} return true end\n  if not quick_parent or"},
	{"a slow success is one to the parent", " or tonumber(ARGV[arg + 7]) ~= SUCCESS then", " then"},
	{"a slow success is one to the model", "or tonumber(ARGV[arg + 4]) ~= SUCCESS ", ""},
	{"a success leaves the Retry-After", "if l.not_before ~= '0' then", "if false then"},
	{"a success's verdict is lost", "quick.output, quick.judged = ARGV[arg + 2], true\n    judge(quick)", ""},
	{"a success is not remembered", "  remember(l, table.concat(counted))\n", ""},
	{"one ticket too few is remembered", "-TICKET * l.remembered", "-TICKET * (l.remembered - 1)"},
	{"no evidence counts", "local evident = l.outcome == SUCCESS or l.outcome == FAILURE", "local evident = l.outcome ~= NONE"},
	{"it trips one failure late", "failed >= l.failures", "failed > l.failures"},
	{"one model opens the parent", " and (failed > own or l.scope == MODEL)", ""},
	{"the parent takes all models for one", "(failed > own or", "(failed > failed or"},
	{"it does not wait for min_results", "results(l) >= l.min_results and ", ""},
	{"results never get stale", "while first <= n and at(l, first) < oldest do", "while false do"},
	{"results are taken for young a moment too long", "at(l, first) < now - least", "at(l, first) < now - least - 1"},
	{"results get stale a moment early", "at(l, first) < oldest", "at(l, first) <= oldest"},
	{"automatic stale is never stretched", "if n < l.window then return stale_max end", "if n < l.window then return stale_min end"},
	{"automatic stale ignores the pace", "math.max(math.floor(span * n / (n - 1)), stale_min)", "stale_min"},
	{"the window grows", "first = math.max(first, n - l.window + 2)", ""},
	{"results of the future stay there", "if stored > 0 and at(l, stored) > now then", "if false then"},
	{"a success keeps the Retry-After", "if l.outcome == SUCCESS then\n    l.not_before = 0", "if l.outcome == SUCCESS then"},
	{"the last Retry-After wins, not the later time", "l.not_before = math.max(l.not_before, now + l.retry_after)", "l.not_before = now + l.retry_after"},
	{"a hard condition is an ordinary one", "if l.hard then\n    open(l, l.max_cooldown, l.why)\n  elseif", "if l.hard then\n    open(l, l.first_cooldown, l.why)\n  elseif"},
	{"a breaker that is held closed opens", "if held(l) == 'closed' then return true end", ""},
	{"a probe's ticket is not checked", "if not lease or l.epoch", "lease = lease or string.match(l.leases, '[^:,]+:%d+,')\n  if not lease or l.epoch"},
	{"a rate-limited probe reopens", "if l.outcome == SUCCESS or l.outcome == LIMITED then\n    l.good", "if l.outcome == SUCCESS then\n    l.good"},
	{"one success closes", "if l.good >= l.need then", "if true then"},
	{"one failure reopens", "if l.round - l.bad - l.void < l.need then", "if true then"},
	{"a lost round goes on", "if l.round - l.bad - l.void < l.need then", "if l.round - l.bad < l.need then"},
	{"a hard probe is an ordinary failure", "if l.hard then\n    open(l, l.max_cooldown, l.why)\n    return true", "if false then\n    return true"},
	{"cooldowns do not double", "length = 2 * l.cooldown", "length = l.cooldown"},
	{"cooldowns have no cap", "open(l, math.min(length, l.max_cooldown), l.why)", "open(l, length, l.why)"},
	{"no evidence doubles the cooldown", "if l.bad > 0 then", "if true then"},
	{"a refused probe stays the prober's", "if l.unfit then l.task_next = 1 end", ""},
	{"the parent learns nothing of a model's probe", "if of_model then report_call(p) end", ""},
	{"a parent's answer leaves its model open", "if not closed(l) and (l.outcome == SUCCESS or l.outcome == LIMITED) then", "if false then"},
	{"a parent's probe hides what the model is", "elseif closed(l) and l.hard then", "elseif false then"},
	{"what a clock that stepped back left lengthens a hard condition", "elseif closed(l) and l.hard then\n    wait(l)\n", "elseif closed(l) and l.hard then\n"},
	{"the parent's probe overrules a hold", "if held(l) then return end", ""},
	{"a verdict without evidence is lost", "if not evident and l.output == '' then return false end", "if not evident then return false end"},
	{"a verdict is evidence", "if not evident then return true end", ""},
	{"a call's verdict is lost", "  judge(l)\n  if not evident", "  if not evident"},
	{"a repeated verdict counts", "  remember(l, id)\n  judge(l)\n  if not evident then return true end", "  judge(l)\n  if not evident then return true end\n  remember(l, id)"},
	{"a probe's verdict is lost", "string.sub(l.leases, to + 1)\n  judge(l)", "string.sub(l.leases, to + 1)"},
	{"the verdict of a parent's probe is lost", "  judge(l)\n  if held", "  if held"},
	{"a late verdict of a parent's probe counts", "if l.epoch == 0 or l.epoch ~= l.ticket then return end\n  judge(l)", "judge(l)\n  if l.epoch == 0 or l.epoch ~= l.ticket then return end"},
	{"one verdict too many is kept", "OUTPUTS = 50", "OUTPUTS = 51"},
	{"a parent has outputs, too", "arg + 6, TAG, '')", "arg + 6, TAG, ARGV[arg + 2])"},
	{"a success gives a parent outputs", "    judge(quick)\n", "    judge(quick)\n    quick_parent.output, quick_parent.judged = ARGV[arg + 2], true\n    judge(quick_parent)\n"},
	{"a transition forgets the outputs", "l.seen, l.leases, l.not_before = '', '', 0", "l.seen, l.leases, l.outputs, l.not_before = '', '', '', 0"},
	{"successes before another report are lost", "    flush()\n", "    quick, quick_parent = nil, nil\n"},
	{"successes after another report go by what was", "quick, quick_parent = nil, nil", ""},
	{"the last successes are lost", "flush()\nreturn answers", "return answers"},
	// force.lua
	{"a hold of a time is for good", "if hold_for > 0 then till = now + hold_for end", ""},
	{"an operator's close keeps the hold", "l.hold = action == 'close' and till > 0 and 'closed ' .. hold or ''", "if action == 'close' and till > 0 then l.hold = 'closed ' .. hold end"},
	{"a reset keeps the outputs", "if action == 'reset' then l.outputs = '' end", ""},
	{"any close forgets the outputs", "if action == 'reset' then l.outputs", "if action ~= 'open' then l.outputs"},
	{"held open, but probed", "l.open_until = till > 0 and till or NEVER", ""},
	// due.lua
	{"a model is due under an open parent", "if state ~= 'open' and state ~= 'half_open' then add", "if true then add"},
	{"the parent's turn is always the first one's", "if last_was then return name end\n      first = first or name\n      last_was", "first = first or name\n      last_was"},
	{"what nobody wants is due", "elseif (tonumber(r[1]) or 0) > now and r[2] ~= '1' then", "elseif r[2] ~= '1' then"},
	{"what a task probes is due", "elseif (tonumber(r[1]) or 0) > now and r[2] ~= '1' then", "elseif (tonumber(r[1]) or 0) > now then"},
}

// recordAll returns the moves of the directed trials and of so many random ones.
func recordAll(t *testing.T, random int) (lives [][]move) {
	trials := directed()
	for seed := range random {
		trials = append(trials, genTrial.Example(seed))
	}
	for i, tr := range trials {
		moves, err := record(tr)
		if err != nil {
			t.Fatalf("trial %d: %v", i, err)
		}
		lives = append(lives, moves)
	}
	return lives
}

// firstMismatch returns the first life that the store fails, or nil.
func (s *scripted) firstMismatch(lives [][]move) (int, error) {
	for i, moves := range lives {
		if err := s.live(moves); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// replaced returns the scripts with one place changed.
func (s scripts) replaced(old, with string) scripts {
	for _, text := range []*string{&s.closed, &s.admit, &s.report, &s.force, &s.due, &s.record} {
		*text = strings.Replace(*text, old, with, 1)
	}
	return s
}

func TestEveryMutationOfTheScriptsIsNoticed(t *testing.T) {
	lives := recordAll(t, 120)
	clients := make(chan *redis.Client, runtime.GOMAXPROCS(0))
	for range cap(clients) {
		clients <- redistest.Client(t)
	}
	rdb := <-clients
	if n, err := onScripts(rdb, embedded()).firstMismatch(lives); err != nil {
		t.Fatalf("the scripts as they are fail trial %d: %v", n, err)
	}
	clients <- rdb
	all := strings.Join([]string{closedLua, recordLua, admitLua, reportLua, forceLua, dueLua}, "\n")
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(all, m.old) != 1 {
				t.Fatalf("the scripts do not hold exactly one %q", m.old)
			}
			rdb := <-clients
			defer func() { clients <- rdb }()
			n, err := onScripts(rdb, embedded().replaced(m.old, m.broken)).firstMismatch(lives)
			if err == nil {
				t.Fatalf("nobody noticed: %q instead of %q", m.broken, m.old)
			}
			t.Logf("noticed by trial %d: %v", n, err)
		})
	}
}
