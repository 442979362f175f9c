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
-- ARGV[37] to ARGV[48] the same of the parent
-- Replies COUNTED or IGNORED.
local stale_min, stale_max = tonumber(ARGV[21]), tonumber(ARGV[22])
local NONE, SUCCESS, FAILURE, LIMITED = 0, 1, 2, 3
local OUTPUTS = 50

local function reported(scope, settings, at, tag, output)
  local l = level(scope, settings)
  l.tag, l.output = tag, output
  l.ticket, l.outcome, l.hard = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  l.unfit, l.why, l.retry_after = ARGV[at + 3] == '1', ARGV[at + 4], tonumber(ARGV[at + 5])
  l.window, l.failures, l.min_results = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8])
  l.stale, l.first_cooldown, l.remembered = tonumber(ARGV[at + 9]), tonumber(ARGV[at + 10]), tonumber(ARGV[at + 11])
  return l
end

-- stale_after is the age beyond which results of at[first..n] do not count.
local function stale_after(l, at, first)
  if l.stale ~= 0 then return l.stale end
  local n = #at - first + 1
  if n < l.window then return stale_max end
  if n < 2 then return stale_min end
  local span = math.min(at[#at] - at[first], stale_max)
  return math.min(math.max(math.floor(span * n / (n - 1)), stale_min), stale_max)
end

-- push adds a result to the ring, after what is stale has left it; returns how
-- many results and failures the ring holds then, and whether the failures are
-- of several models.
local function push(l, mark)
  local at, marks, tags, begins = {}, {}, {}, {}
  for from, ms, m, tag in string.gmatch(l.ring, '()(%d+)([+-])(%x*),') do
    local n = #at + 1
    begins[n], at[n], marks[n], tags[n] = from, tonumber(ms), m, tag
  end
  if #at > 0 and at[#at] > now then -- the clock stepped back
    l.ring = string.gsub(l.ring, '(%d+)([+-])', function(ms, m) return text(math.min(tonumber(ms), now)) .. m end)
    return push(l, mark)
  end
  local first = math.max(#at - l.window, 0) + 1
  local oldest = now - stale_after(l, at, first)
  while first <= #at and at[first] < oldest do first = first + 1 end
  first = math.max(first, #at - l.window + 2)
  local results, failed, several = #at - first + 2, mark == '-' and 1 or 0, false
  for i = first, #at do
    if marks[i] == '-' then
      failed = failed + 1
      several = several or tags[i] ~= l.tag
    end
  end
  local kept = begins[first] and string.sub(l.ring, begins[first]) or ''
  l.ring = kept .. text(now) .. mark .. l.tag .. ','
  return results, failed, several
end

local function remember(l)
  l.seen = string.sub(l.seen .. id .. ',', -17 * l.remembered)
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
  if not closed(l) or l.epoch == 0 or l.epoch ~= l.ticket or string.find(l.seen, id, 1, true) then return false end
  remember(l)
  judge(l)
  if not evident then return true end
  local results, failed, several = push(l, l.outcome == FAILURE and '-' or '+')
  if l.outcome == SUCCESS then
    l.not_before = 0
    return true
  end
  wait(l)
  if held(l) == 'closed' then return true end
  if l.hard then
    open(l, l.max_cooldown, l.why)
  elseif results >= l.min_results and failed >= l.failures and (several or l.scope == MODEL) then
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

local m, p = reported(MODEL, 5, 25, '', ARGV[24]), reported(PARENT, 13, 37, ARGV[23], '')
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
