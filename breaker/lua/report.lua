-- Takes the outcomes of admitted calls, or tickets back, one after another. Follows
-- record.lua, which names KEYS and the shared ARGV.
--
-- ARGV[19] stale_min, ARGV[20] stale_max  ms, bounds of automatic stale
-- ARGV[21] tag          of the model in its parent's ring
-- ARGV[22] window, ARGV[23] failures, ARGV[24] min_results  results, of the model
-- ARGV[25] stale        ms; 0: automatic
-- ARGV[26] cooldown     ms
-- ARGV[27] remembered   tickets
-- ARGV[28] to ARGV[33]  the same of the parent
-- From ARGV[34] on, of each call: id, mode, output (+ a valid answer, - an invalid
-- one, "" not judged) and what the model's level takes: the epoch of the ticket, the
-- outcome (0 none, 1 success, 2 failure, 3 limited, see Outcome) and "", or "hard
-- unfit retry_after reason" (hard, 1: opens at once; unfit, 1: the next probe is a
-- task's; ms, at most max_cooldown; one line); then the same of the parent.
-- Answers COUNTED or IGNORED, by itself where nothing else is to be said.
local stale_min, stale_max = tonumber(ARGV[19]), tonumber(ARGV[20])
local TAG, OUTCOMES, PARENT_OUTCOMES, FIRST, WIDTH = ARGV[21], 22, 28, 34, 9
local NONE, SUCCESS, FAILURE, LIMITED = 0, 1, 2, 3
local OUTPUTS = 50

-- reported adds to a level what the report says of it; from is where its settings of
-- reports begin in ARGV, at where the report does.
local function reported(l, from, at, tag, output)
  l.tag, l.output, l.width = tag, output, 15 + #tag
  l.ticket, l.outcome = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local hard, unfit, wait, why = string.match(ARGV[at + 2], '^(%d) (%d) (%d+) (.*)$')
  l.hard, l.unfit, l.retry_after, l.why = hard == '1', unfit == '1', tonumber(wait or '0'), why or ''
  l.window, l.failures, l.min_results = tonumber(ARGV[from]), tonumber(ARGV[from + 1]), tonumber(ARGV[from + 2])
  l.stale, l.first_cooldown, l.remembered = tonumber(ARGV[from + 3]), tonumber(ARGV[from + 4]), tonumber(ARGV[from + 5])
  if #l.ring % l.width ~= 0 then l.ring = '' end -- no script wrote it
  return l
end

local function results(l) return #l.ring / l.width end

-- at is the time of the ring's n-th result; long ago where it is none. Those behind
-- its end are about to be added.
local function at(l, n)
  local from = (n - 1) * l.width
  if from >= #l.ring then return now end
  return tonumber(string.sub(l.ring, from + 1, from + 13)) or 0
end

local function stamp(ms) return string.format('%013d', ms) end

-- stale_after is the age beyond which the results from the first on do not count.
local function stale_after(l, first, last)
  if l.stale ~= 0 then return l.stale end
  local n = last - first + 1
  if n < l.window then return stale_max end
  if n < 2 then return stale_min end
  local span = math.min(at(l, last) - at(l, first), stale_max)
  return math.min(math.max(math.floor(span * n / (n - 1)), stale_min), stale_max)
end

-- push adds results to the ring, one after another, each after what is stale has
-- left it.
local function push(l, mark, times)
  local stored, first = results(l), 1
  if stored > 0 and at(l, stored) > now then -- the clock stepped back
    l.ring = string.gsub(l.ring, '(%d+)([+-])', function(ms, m) return stamp(math.min(tonumber(ms), now)) .. m end)
  end
  local least = l.stale ~= 0 and l.stale or stale_min -- results count up to this age at any pace
  for n = stored, stored + times - 1 do
    first = math.max(first, n - l.window + 1)
    if first <= n and at(l, first) < now - least then
      local oldest = now - stale_after(l, first, n)
      while first <= n and at(l, first) < oldest do first = first + 1 end
    end
    first = math.max(first, n - l.window + 2)
  end
  local result = stamp(now) .. mark .. l.tag .. ','
  l.ring = string.sub(l.ring, (first - 1) * l.width + 1) .. string.rep(result, math.min(times, stored + times - first + 1))
end

-- trips says whether the ring opens the breaker. A parent's must hold failures
-- of two models.
local function trips(l)
  local _, failed = string.gsub(l.ring, '%-', '')
  local _, own = string.gsub(l.ring, '%-' .. l.tag .. ',', '')
  return results(l) >= l.min_results and failed >= l.failures and (failed > own or l.scope == MODEL)
end

-- saw looks for the ticket; its digits may also stand across the border of two.
local function saw(l)
  local from = 0
  repeat
    from = string.find(l.seen, id, from + 1, true)
  until not from or from % TICKET == 1
  return from
end

local function remember(l, tickets)
  l.seen = string.sub(l.seen .. tickets, -TICKET * l.remembered)
end

-- wait keeps the provider's wish; the later time wins.
local function wait(l)
  if l.retry_after > 0 then l.not_before = math.max(l.not_before, now + l.retry_after) end
  l.not_before = math.min(l.not_before, now + l.max_cooldown)
end

local function judge(l) l.outputs = string.sub(l.outputs .. l.output, -OUTPUTS) end

local function report_call(l)
  local evident = l.outcome == SUCCESS or l.outcome == FAILURE
  if not evident and l.output == '' then return false end
  if not closed(l) or l.epoch == 0 or l.epoch ~= l.ticket or saw(l) then return false end
  remember(l, id)
  judge(l)
  if not evident then return true end
  push(l, l.outcome == FAILURE and '-' or '+', 1)
  if l.outcome == SUCCESS then
    l.not_before = 0
    return true
  end
  wait(l)
  if held(l) == 'closed' then return true end
  if l.hard then
    open(l, l.max_cooldown, l.why)
  elseif trips(l) then
    open(l, l.first_cooldown, l.why)
  end
  return true
end

-- reopen ends a lost round. Without a failure in it, the cooldown is as before.
local function reopen(l)
  local why, length = l.reason, l.cooldown
  if l.bad > 0 then length = 2 * l.cooldown end
  open(l, math.min(length, l.max_cooldown), l.why)
  l.reason = why
end

local function report_probe(l)
  local lease = string.match(l.leases, id .. ':%d+,')
  if not lease or l.epoch ~= l.ticket then return false end
  local from, to = string.find(l.leases, lease, 1, true)
  l.leases = string.sub(l.leases, 1, from - 1) .. string.sub(l.leases, to + 1)
  judge(l)
  if l.outcome == SUCCESS or l.outcome == LIMITED then
    l.good = l.good + 1
    if l.good >= l.need then close(l, l.why) end
    return true
  end
  wait(l)
  if l.hard then
    open(l, l.max_cooldown, l.why)
    return true
  end
  if l.outcome == FAILURE then
    l.bad = l.bad + 1
    l.reason = l.why
  else
    l.void = l.void + 1
    if l.unfit then l.task_next = 1 end
  end
  if l.round - l.bad - l.void < l.need then reopen(l) end
  return true
end

-- probed_for_parent is what a parent's probe means for the model it went through.
local function probed_for_parent(l)
  if l.epoch == 0 or l.epoch ~= l.ticket then return end
  judge(l)
  if held(l) then return end
  if not closed(l) and (l.outcome == SUCCESS or l.outcome == LIMITED) then
    close(l, l.why)
  elseif closed(l) and l.hard then
    wait(l)
    open(l, l.max_cooldown, l.why)
  end
end

-- brief reads what usual reports need of a level: successes that count and move
-- nothing. Where others are to come first, it returns nothing.
local function brief(scope, settings, from, tag)
  local v = redis.call('HMGET', KEYS[scope], 'state', 'epoch', 'hold', 'ring', 'seen', 'not_before', 'outputs')
  if v[1] ~= 'closed' or v[3] and v[3] ~= '' then return end
  local l = {key = KEYS[scope], ttl = ARGV[settings + 1], tag = tag, width = 15 + #tag,
    epoch = v[2], ring = v[4] or '', seen = v[5] or '', not_before = v[6] or '0', outputs = v[7] or '',
    window = tonumber(ARGV[from]), stale = tonumber(ARGV[from + 3]), remembered = tonumber(ARGV[from + 5])}
  if #l.ring % l.width == 0 then return l end
end

local quick, quick_parent -- both levels for usual reports, as long as they come
local counted, known = {}, {} -- their tickets, in turn, and each by itself

-- answered counts the usual report of a call and says whether it was one.
local function answered(arg)
  if mode ~= 'call' or tonumber(ARGV[arg + 4]) ~= SUCCESS or tonumber(ARGV[arg + 7]) ~= SUCCESS then return false end
  quick = quick or brief(MODEL, SETTINGS, OUTCOMES, '')
  quick_parent = quick_parent or quick and brief(PARENT, PARENT_SETTINGS, PARENT_OUTCOMES, TAG)
  if not quick_parent or quick.epoch ~= ARGV[arg + 3] or quick_parent.epoch ~= ARGV[arg + 6] then return false end
  if known[id] or saw(quick) or saw(quick_parent) then return false end
  counted[#counted + 1], known[id] = id, true
  if ARGV[arg + 2] ~= '' then
    quick.output, quick.judged = ARGV[arg + 2], true
    judge(quick)
  end
  return true
end

-- write does for a level, once for all of them, what report_call and save would do.
local function write(l)
  remember(l, table.concat(counted))
  push(l, '+', #counted)
  local args = {'ring', l.ring, 'seen', l.seen}
  if l.judged then args[5], args[6] = 'outputs', l.outputs end
  if l.not_before ~= '0' then
    args[#args + 1] = 'not_before'
    args[#args + 1] = '0'
  end
  redis.call('HSET', l.key, unpack(args))
  redis.call('PEXPIRE', l.key, l.ttl)
end

local function flush()
  if counted[1] then
    write(quick)
    write(quick_parent)
    counted, known = {}, {}
  end
  quick, quick_parent = nil, nil
end

local function report(arg)
  local m = reported(level(MODEL), OUTCOMES, arg + 3, '', ARGV[arg + 2])
  local p = reported(level(PARENT), PARENT_OUTCOMES, arg + 6, TAG, '')
  settle(m)
  settle(p)
  local of_model, of_parent = false, false
  if mode == 'parent' then
    of_parent = report_probe(p)
    if of_parent then probed_for_parent(m) end
  elseif mode == 'model' then
    of_model = report_probe(m)
    if of_model then report_call(p) end
  else
    of_model, of_parent = report_call(m), report_call(p)
  end
  save(m)
  save(p)
  return reply((of_model or of_parent) and COUNTED or IGNORED, {}, m, p)
end

local answers = {}
for arg = FIRST, #ARGV, WIDTH do
  id, mode = ARGV[arg], ARGV[arg + 1]
  if answered(arg) then
    answers[#answers + 1] = COUNTED
  else
    flush()
    answers[#answers + 1] = report(arg)
  end
end
flush()
return answers
