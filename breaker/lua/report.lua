-- Takes the outcome of an admitted call, or a ticket back. Follows record.lua,
-- which names KEYS and the first ARGV.
--
-- ARGV[9]  epoch        of the ticket
-- ARGV[10] outcome      0 none, 1 success, 2 failure, 3 limited (see Outcome)
-- ARGV[11] hard         "1" opens at once
-- ARGV[12] reason       one line
-- ARGV[13] retry_after  ms, at most max_cooldown
-- ARGV[14] window, ARGV[15] failures, ARGV[16] min_results  results
-- ARGV[17] stale        ms; 0: automatic
-- ARGV[18] cooldown     ms
-- ARGV[19] remembered   tickets
-- ARGV[20] stale_min, ARGV[21] stale_max  ms, bounds of automatic stale
-- Replies COUNTED or IGNORED.
local epoch, outcome, hard, reason = tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11] == '1', ARGV[12]
local retry_after, window, failures, min_results = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local stale, cooldown, remembered = tonumber(ARGV[17]), tonumber(ARGV[18]), tonumber(ARGV[19])
local stale_min, stale_max = tonumber(ARGV[20]), tonumber(ARGV[21])
local NONE, SUCCESS, FAILURE, LIMITED = 0, 1, 2, 3
if hard then outcome = FAILURE end

local function open(length, why)
  rec.reason, rec.cooldown = why, length
  rec.open_until = math.max(now + length, rec.not_before)
  rec.lease_id, rec.lease_until = '', 0
  return change('open', reason)
end

local function close()
  rec.ring, rec.reason = '', ''
  rec.open_until, rec.cooldown, rec.wanted = 0, 0, 0
  rec.lease_id, rec.lease_until = '', 0
  return change('closed', reason)
end

-- stale_after is the age beyond which results of at[first..n] do not count.
local function stale_after(at, first)
  if stale ~= 0 then return stale end
  local n = #at - first + 1
  if n < window then return stale_max end
  if n < 2 then return stale_min end
  local span = math.min(at[#at] - at[first], stale_max)
  return math.min(math.max(math.floor(span * n / (n - 1)), stale_min), stale_max)
end

-- push adds a result to the ring, after what is stale has left it; returns how
-- many results and failures the ring holds then.
local function push(mark)
  local at, marks, begins = {}, {}, {}
  for begin, ms, m in string.gmatch(rec.ring, '()(%d+)([+-])') do
    local n = #at + 1
    begins[n], at[n], marks[n] = begin, tonumber(ms), m
  end
  if #at > 0 and at[#at] > now then -- the clock stepped back
    rec.ring = string.gsub(rec.ring, '%d+', function(ms) return text(math.min(tonumber(ms), now)) end)
    return push(mark)
  end
  local first = math.max(#at - window, 0) + 1
  local oldest = now - stale_after(at, first)
  while first <= #at and at[first] < oldest do first = first + 1 end
  first = math.max(first, #at - window + 2)
  local results, failed = #at - first + 2, mark == '-' and 1 or 0
  for i = first, #at do
    if marks[i] == '-' then failed = failed + 1 end
  end
  local kept = begins[first] and string.sub(rec.ring, begins[first]) or ''
  rec.ring = kept .. text(now) .. mark
  return results, failed
end

local function remember()
  rec.seen = string.sub(rec.seen .. id .. ',', -17 * remembered)
end

local function report_call()
  if outcome ~= SUCCESS and outcome ~= FAILURE then return reply(IGNORED, {}) end
  if rec.epoch == 0 or rec.epoch ~= epoch or string.find(rec.seen, id, 1, true) then
    return reply(IGNORED, {})
  end
  remember()
  local results, failed = push(outcome == FAILURE and '-' or '+')
  if outcome == SUCCESS then
    rec.not_before = 0
    return reply(COUNTED, {})
  end
  if retry_after > 0 then rec.not_before = math.max(rec.not_before, now + retry_after) end
  rec.not_before = math.min(rec.not_before, now + max_cooldown)
  local c
  if hard then
    c = open(max_cooldown, reason)
  elseif results >= min_results and failed >= failures then
    c = open(cooldown, reason)
  end
  return reply(COUNTED, {change = c})
end

local function report_probe()
  if rec.lease_id == '' or rec.lease_id ~= id or rec.epoch ~= epoch then return reply(IGNORED, {}) end
  if outcome == SUCCESS or outcome == LIMITED then return reply(COUNTED, {change = close()}) end
  if retry_after > 0 then rec.not_before = now + retry_after end
  local length, why = rec.cooldown, rec.reason
  if hard then
    length, why = max_cooldown, reason
  elseif outcome == FAILURE then
    length, why = 2 * rec.cooldown, reason
  end
  return reply(COUNTED, {change = open(math.min(length, max_cooldown), why)})
end

load()
settle()
local answer
if probe then answer = report_probe() else answer = report_call() end
save()
return answer
