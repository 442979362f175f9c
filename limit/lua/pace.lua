-- Stands before reserve.lua and settle.lua: reads the pace of a model, begins with
-- the calls, one after another, and brings the pace to now before each. It must
-- agree with pace_state.go and adapt.go, field for field; numbers.lua stands before
-- it, and save.lua, which ends the loop, after all.
--
-- The code is one straight line: a function that reaches many locals costs more
-- each time it is made than all that this script computes.
--
-- KEYS[1] pace    hash: pace, learned: the numbers of a state in the order below;
--                 park:<lane>: at until wait;
--                 t:<ticket>: "c" n begun flight tokens end, or "p" seq tokens end
-- KEYS[2] places  zset: tickets that wait, by seq
-- KEYS[3] ends    zset: all tickets, by their ends, ms
-- ARGV[1] now     ms; "" takes the server's clock
-- ARGV[2] rpm, ARGV[3] tpm, ARGV[4] concurrency  configured and clamped; 0: none
-- ARGV[5] lane    "": the model's own
-- ARGV[6] width   arguments of each call, which follow; the first of them is
--                 its ticket, "": none
-- Replies a list with an answer to each call.
local key, places, ends = KEYS[1], KEYS[2], KEYS[3]
local rpm, tpm_set, concurrency_set = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lane, WIDTH, FIRST = ARGV[5], tonumber(ARGV[6]), 7
local call, min, max, floor, format = redis.call, math.min, math.max, math.floor, string.format

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] * 1000 + floor(t[2] / 1000)
end

local function clamp(n, low, high) return min(max(n, low), high) end

local function least(a, b)
  if a == 0 then return b end
  if b == 0 then return a end
  return min(a, b)
end

local function ceil(a, b)
  if a <= 0 then return 0 end
  return floor((a + b - 1) / b)
end

local SEVEN = '%d %d %d %d %d %d %d ' -- numbers, as they are written and read
local SEVEN_MATCH = '(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) '
local fields = {'pace', 'learned', 'park:', 'park:' .. lane}
for arg = FIRST, #ARGV, WIDTH do fields[#fields + 1] = 't:' .. ARGV[arg] end
local stored = call('HMGET', key, unpack(fields))
local own_park, lane_park = stored[3] or '0 0 0', stored[4] or '0 0 0'
-- What the calls' tickets are, as fields of KEYS[1] hold it; false: nothing. Those
-- that changed, in turn, and the ends of those that are something.
local state, changed, end_of = {}, {}, {}
for n = 5, #fields do state[ARGV[FIRST + (n - 5) * WIDTH]] = stored[n] end
if not string.match(own_park, '^%d+ %d+ %d+$') then own_park = '0 0 0' end
if not string.match(lane_park, '^%d+ %d+ %d+$') then lane_park = '0 0 0' end

local at, kept, req, tok, flight, waiting, next_end, seq, wait_tok, last, begun, passed, limited, latency = string.match(stored[1] or '', SEVEN_MATCH .. SEVEN_MATCH)
if at then
  -- Adding 0 makes numbers of texts at half the cost of tonumber.
  at, kept, req, tok, flight, waiting, next_end = at + 0, kept + 0, req + 0, tok + 0, flight + 0, waiting + 0, next_end + 0
  seq, wait_tok, last, begun, passed, limited, latency = seq + 0, wait_tok + 0, last + 0, begun + 0, passed + 0, limited + 0, latency + 0
else
  at, kept, req, tok, flight, waiting, next_end, seq, wait_tok, last, begun, passed, limited, latency = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  call('DEL', places, ends) -- what a lost key left behind
end

local window, window_at, rate_learned, estimate, sure, grow_at, pressed, mark_at, mark_n, lost, anew, event_at, crowd, park_to, idle, smooth, full, cap, cap_at, cap_wait, grown, safe, proven, ramp, told_rate, told_tpm, told_at, hold = string.match(stored[2] or '', SEVEN_MATCH .. SEVEN_MATCH .. SEVEN_MATCH .. SEVEN_MATCH)
if window then
  window, window_at, rate_learned, estimate, sure, grow_at, pressed = window + 0, window_at + 0, rate_learned + 0, estimate + 0, sure + 0, grow_at + 0, pressed + 0
  mark_at, mark_n, lost, anew, event_at, crowd, park_to = mark_at + 0, mark_n + 0, lost + 0, anew + 0, event_at + 0, crowd + 0, park_to + 0
  idle, smooth, full, cap, cap_at, cap_wait, grown = idle + 0, smooth + 0, full + 0, cap + 0, cap_at + 0, cap_wait + 0, grown + 0
  safe, proven, ramp, told_rate, told_tpm, told_at, hold = safe + 0, proven + 0, ramp + 0, told_rate + 0, told_tpm + 0, told_at + 0, hold + 0
else
  window, window_at, rate_learned, estimate, sure, grow_at, pressed = 0, 0, 0, 0, 0, 0, 0
  mark_at, mark_n, lost, anew, event_at, crowd, park_to = 0, 0, 0, 0, 0, 0, 0
  idle, smooth, full, cap, cap_at, cap_wait, grown = 0, 0, 0, 0, 0, 0, 0
  safe, proven, ramp, told_rate, told_tpm, told_at, hold = 0, 0, 0, 0, 0, 0, 0
end

-- What is read stays as it is until save; taught says that a call changes learned,
-- learnt that one did.
local ends_was, places_was, taught, learnt = flight + waiting, waiting, false, false

local elapsed = min(now - at, MAX_ELAPSED)
if now < at - MAX_STEP_BACK then -- times have no meaning any more
  call('DEL', key, places, ends)
  state, own_park, lane_park = {}, '0 0 0', '0 0 0'
  kept, req, tok, flight, waiting, next_end, seq, wait_tok, last = 0, 0, 0, 0, 0, 0, 0, 0, 0
  window_at, grow_at, pressed, mark_at, mark_n, lost, anew, event_at, crowd = 0, 0, 0, 0, 0, 0, 0, 0, 0
  park_to, idle, full, cap_at, grown, proven, ramp, told_rate, told_tpm, told_at, hold = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  ends_was, places_was, taught = 0, 0, true
  elapsed = MAX_ELAPSED
elseif at == 0 then
  elapsed = MAX_ELAPSED
elseif elapsed < 0 then
  elapsed = 0
end
local keep = now - kept >= KEEP_EVERY
if keep then kept = now end

-- Calls whose lease ended and places whose owner does not ask.
if next_end ~= 0 and now >= next_end then
  for _, t in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now)) do
    local tokens = string.match(call('HGET', key, 't:' .. t) or '', '^p %d+ (%d+)')
    if tokens then
      wait_tok = wait_tok - tokens
      call('ZREM', places, t)
    end
    call('HDEL', key, 't:' .. t)
    state[t] = nil
  end
  call('ZREMRANGEBYSCORE', ends, '-inf', now)
  waiting = call('ZCARD', places)
  flight = max(call('ZCARD', ends) - waiting, 0)
  if waiting == 0 then wait_tok = 0 end
  next_end = tonumber(call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2] or 0)
  ends_was, places_was = flight + waiting, waiting
end

-- What follows from the numbers, see below.
local starting, ramped, learned_flight, burst, tpm, rate, concurrency
local stale, parked, answers = true, false, {}
for arg = FIRST, #ARGV, WIDTH do
local ticket = ARGV[arg]
if stale then -- by the first call, or since the one before taught something
  -- What was learned grows while it is what limits.
  if now - full <= FRESH_PRESS then
    if rpm == 0 and rate_learned == 0 and cap == 0 and told_rate == 0 and now - window_at >= WIDEN_EVERY then
      if window == 0 then window = FIRST_WINDOW end
      window, window_at, taught = min(floor(window * 3 / 2), 1000 * MAX_FLIGHT), now, true
    end
    local proved, wait = grown == 1 and proven >= ENOUGH, cap_wait
    if proved then wait = LEAST_CAP end
    if cap > 0 and now - cap_at >= wait then
      if proved then cap_wait = max(floor(cap_wait / 2), FIRST_CAP) end
      safe = max(floor(cap / 1000), 1)
      cap = min(cap + max(floor(cap / 8000) * 1000, 1000), 1000 * MAX_FLIGHT)
      cap_at, grown, proven, taught = now, 1, 0, true
    end
  end
  if rate_learned > 0 and now - pressed <= FRESH_PRESS and now - grow_at >= GROW_STEP then
    local d, gain = min(now - grow_at, 1000)
    if 1000 * rate_learned > estimate * FAST_FROM then
      gain = floor(rate_learned * clamp(floor(rate_learned * FAST_CALL / 60000), 1, FAST_MILLE) * d / 1000000)
    else
      gain = floor(estimate * clamp(floor(rate_learned * GROW_CALL / 60000), 1, floor(GROW_MILLE / 2 ^ max(sure - 1, 0))) * d / 1000000)
    end
    if gain > 0 then rate_learned, grow_at, taught = min(rate_learned + gain, MAX_RATE), now, true end
  end
  if told_at > 0 and now - told_at > TOLD_FOR then
    told_rate, told_tpm, told_at, taught = 0, 0, 0, true
  end

  -- The limits that count: rate in thousandths of a call a minute, tokens a
  -- minute, calls in flight, by what was learned and in all; 0: none.
  starting = rpm == 0 and rate_learned == 0 and cap == 0 and told_rate == 0
  ramped, learned_flight, burst = 0, floor(cap / 1000), RULE_BURST
  if ramp ~= 0 then
    local n = floor(max(now - ramp, 0) / 1000)
    if n < RAMP_FOR then ramped = 2 ^ (n + 1) end
  end
  tpm = least(tpm_set, told_tpm)
  rate = least(least(1000 * rpm, rate_learned), told_rate)
  if ramped > 0 then rate = least(rate, min(ramped * (CALL_UNIT / 1000), MAX_RATE)) end
  if starting then
    learned_flight = floor(window / 1000)
    if window == 0 then learned_flight = FIRST_WINDOW / 1000 end
  end
  concurrency = least(least(concurrency_set, learned_flight), ramped)
  if rate_learned > 0 then burst = floor(LEARN_BURST / 4 ^ smooth) end
  burst = max(rate * burst, CALL_UNIT)

  -- The buckets fill; one without a rate is empty.
  if rate > 0 then req = min(req + elapsed * rate, burst) else req = 0 end
  if tpm > 0 then tok = min(tok + elapsed * tpm, tpm * TOKEN_BURST) else tok = 0 end
  at, elapsed = now, 0
end

-- What this ticket is: a call in flight, a place, or nothing.
local mine = state[ticket]
local call_n, call_begun, call_flight, call_tokens, place_seq, place_tokens
if mine then
  call_n, call_begun, call_flight, call_tokens = string.match(mine, '^c (%d+) (%d+) (%d+) (%d+)')
  if call_n then
    call_n, call_begun, call_flight, call_tokens = tonumber(call_n), tonumber(call_begun), tonumber(call_flight), tonumber(call_tokens)
  else
    place_seq, place_tokens = string.match(mine, '^p (%d+) (%d+)')
    place_seq, place_tokens = tonumber(place_seq), tonumber(place_tokens)
  end
end

-- What the scripts leave to save.lua: the answer, what the ticket is now and until
-- when, or that it is nothing any more.
local answer, value, till, gone
