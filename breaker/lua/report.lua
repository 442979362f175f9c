-- Takes the outcome of an admitted call, or a ticket back. Follows record.lua,
-- which names KEYS and the first ARGV.
--
-- ARGV[21] stale_min, ARGV[22] stale_max  ms, bounds of automatic stale
-- ARGV[23] tag          of the model in its parent's ring
-- ARGV[24] output       + a valid answer, - an invalid one, "" not judged
-- ARGV[25] epoch        of the ticket, and what the model's level takes:
-- ARGV[26] outcome      0 none, 1 success, 2 failure, 3 limited (see Outcome)
-- ARGV[27] hard         "1" opens at once
-- ARGV[28] unfit        "1": the next probe is a task's
-- ARGV[29] reason       one line
-- ARGV[30] retry_after  ms, at most max_cooldown
-- ARGV[31] window, ARGV[32] failures, ARGV[33] min_results  results
-- ARGV[34] stale        ms; 0: automatic
-- ARGV[35] cooldown     ms
-- ARGV[36] remembered   tickets
-- ARGV[37] epoch, ARGV[38] outcome, and so on to ARGV[48]: the same of the parent
-- Replies COUNTED or IGNORED.
local stale_min, stale_max = tonumber(ARGV[21]), tonumber(ARGV[22])
local NONE, SUCCESS, FAILURE, LIMITED = 0, 1, 2, 3
local OUTPUTS = 50

-- reported adds to a level what the report says of it; at is where that begins
-- in ARGV.
local function reported(l, at, tag, output)
  l.tag, l.output, l.width = tag, output, 15 + #tag
  l.ticket, l.outcome, l.hard = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  l.unfit, l.why, l.retry_after = ARGV[at + 3] == '1', ARGV[at + 4], tonumber(ARGV[at + 5])
  l.window, l.failures, l.min_results = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8])
  l.stale, l.first_cooldown, l.remembered = tonumber(ARGV[at + 9]), tonumber(ARGV[at + 10]), tonumber(ARGV[at + 11])
  if #l.ring % l.width ~= 0 then l.ring = '' end -- no script wrote it
  return l
end

local function results(l) return #l.ring / l.width end

-- at is the time of the ring's n-th result; long ago where it is none.
local function at(l, n)
  local from = (n - 1) * l.width
  return tonumber(string.sub(l.ring, from + 1, from + 13)) or 0
end

local function stamp(ms) return string.format('%013.0f', ms) end

-- stale_after is the age beyond which the results from the first on do not count.
local function stale_after(l, first, last)
  if l.stale ~= 0 then return l.stale end
  local n = last - first + 1
  if n < l.window then return stale_max end
  if n < 2 then return stale_min end
  local span = math.min(at(l, last) - at(l, first), stale_max)
  return math.min(math.max(math.floor(span * n / (n - 1)), stale_min), stale_max)
end

-- push adds a result to the ring, after what is stale has left it.
local function push(l, mark)
  local n = results(l)
  if n > 0 and at(l, n) > now then -- the clock stepped back
    l.ring = string.gsub(l.ring, '(%d+)([+-])', function(ms, m) return stamp(math.min(tonumber(ms), now)) .. m end)
  end
  local first = math.max(n - l.window, 0) + 1
  local least = l.stale ~= 0 and l.stale or stale_min -- results count up to this age at any pace
  if first <= n and at(l, first) < now - least then
    local oldest = now - stale_after(l, first, n)
    while first <= n and at(l, first) < oldest do first = first + 1 end
  end
  first = math.max(first, n - l.window + 2)
  l.ring = string.sub(l.ring, (first - 1) * l.width + 1) .. stamp(now) .. mark .. l.tag .. ','
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

local function remember(l)
  l.seen = string.sub(l.seen, -TICKET * (l.remembered - 1)) .. id
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
  remember(l)
  judge(l)
  if not evident then return true end
  push(l, l.outcome == FAILURE and '-' or '+')
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

-- brief reads what the usual report of a call needs of a level: a success that
-- counts and moves nothing. In any other case it returns nothing.
local function brief(scope, settings, from, tag, output)
  local v = redis.call('HMGET', KEYS[scope], 'state', 'epoch', 'hold', 'ring', 'seen', 'not_before', 'outputs')
  if v[1] ~= 'closed' or v[2] ~= ARGV[from] or v[3] and v[3] ~= '' then return end
  local l = {key = KEYS[scope], ttl = ARGV[settings + 1], tag = tag, output = output, width = 15 + #tag,
    ring = v[4] or '', seen = v[5] or '', not_before = v[6] or '0', outputs = v[7] or '',
    window = tonumber(ARGV[from + 6]), stale = tonumber(ARGV[from + 9]), remembered = tonumber(ARGV[from + 11])}
  if #l.ring % l.width ~= 0 then return end
  if not saw(l) then return l end
end

-- count does for such a level what report_call and save would do.
local function count(l)
  remember(l)
  push(l, '+')
  local args = {'ring', l.ring, 'seen', l.seen}
  if l.output ~= '' then
    judge(l)
    args[5], args[6] = 'outputs', l.outputs
  end
  if l.not_before ~= '0' then
    args[#args + 1] = 'not_before'
    args[#args + 1] = '0'
  end
  redis.call('HSET', l.key, unpack(args))
  redis.call('PEXPIRE', l.key, l.ttl)
end

if mode == 'call' and tonumber(ARGV[26]) == SUCCESS and tonumber(ARGV[38]) == SUCCESS then
  local m = brief(MODEL, 5, 25, '', ARGV[24])
  local p = m and brief(PARENT, 13, 37, ARGV[23], '')
  if p then
    count(m)
    count(p)
    return reply(COUNTED, {})
  end
end

local m = reported(level(MODEL, 5), 25, '', ARGV[24])
local p = reported(level(PARENT, 13), 37, ARGV[23], '')
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
