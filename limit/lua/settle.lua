-- Applies the end of a call, or another change that is no question. Follows
-- numbers.lua and pace.lua, which name KEYS and ARGV[1] to ARGV[6].
--
-- ARGV[7] op  "settle", "cancel", "park" or "restart"
-- ARGV[8] kind  1 passed, 2 limited, 3 unclear; ARGV[9] retry_after ms, 0: none
-- ARGV[10] tokens, 0: unknown; ARGV[11] latency us, 0: unknown; ARGV[12] alone, 1 or 0
-- ARGV[13] requests: limit, 0: nothing was told; ARGV[14] remaining, -1: unknown; ARGV[15] reset ms
-- ARGV[16] tokens: limit, ARGV[17] remaining
-- Replies for how many ms the lane is parked by this.
local op, kind, retry_after = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local PASSED, LIMITED = 1, 2

local function lose()
  if (call_n or 0) > mark_n then lost, taught = lost + 1, true end
end

local function settled()
  local tokens, took, alone = tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12] == '1'
  local known = call_n ~= nil
  forget_ticket()
  if known then
    if tokens > 0 then pay(tokens - call_tokens) end
  elseif alone then
    begun = begun + 1
    spend(tokens)
  else
    return
  end
  if kind == LIMITED then
    limited = limited + 1
    lose()
  elseif kind == PASSED then
    passed = passed + 1
    local was = call_flight or 0
    if cap > 0 and was > safe and (call_begun or 0) >= cap_at and proven < ENOUGH then proven, taught = proven + 1, true end
    if rate_learned == 0 and cap == 0 and 2000 * was >= window_now() then
      local slow = min(1000 + div(700000, max(floor(took / 1000), 1)), 3000)
      window, taught = min(window_now() + div(1000000, slow), 1000 * MAX_FLIGHT), true
    end
    if took > 0 then
      if latency == 0 then latency = took end
      latency = floor((7 * latency + took) / 8)
    end
  end
end

-- hear learns from headers, which tell of the moment at which the call came.
local function hear()
  local age = clamp(now - call_begun, 0, MAX_ELAPSED)
  local limit, remaining, reset = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
  if limit > 0 then
    told_rate, told_at, taught = max(limit * 970, MIN_RATE), now, true
    limits()
    if remaining >= 0 then
      local left = remaining * CALL_UNIT + age * rate - min(begun - call_n, MAX_FLIGHT) * CALL_UNIT
      req = min(req, max(left, 0))
    end
    if remaining == 0 then
      local filled = 60000
      local off = math.abs(reset - filled)
      if 20 * off <= filled then reset = div(reset, limit) else reset = min(reset, MAX_HOLD) end
      hold = max(hold, call_begun + reset)
    end
  end
  limit, remaining = tonumber(ARGV[16]), tonumber(ARGV[17])
  if limit > 0 then
    told_tpm, told_at, taught = max(div(limit * 97, 100), 1), now, true
    limits()
    if remaining >= 0 then tok = min(tok, remaining * TOKEN_UNIT + age * tpm) end
  end
end

local function taken() return clamp(call_n - mark_n - lost, 0, MAX_TAKEN) end

-- park applies a refusal to the lane, as park.go does, and returns its end and fields.
local function park(text)
  local set, till, wait = string.match(text, '(%d+) (%d+) (%d+)')
  set, till, wait = tonumber(set), tonumber(till), tonumber(wait)
  if now < set - MAX_STEP_BACK then set, till, wait = 0, 0, 0 end
  local was = till
  if op == 'settle' and call_n and lane == '' and taken() >= STREAK_ENDS then wait = 0 end
  if retry_after > 0 then
    till = max(till, now + retry_after)
  elseif now >= till then
    if wait == 0 or now > till + 2 * wait then wait = FIRST_WAIT else wait = min(2 * wait, LONGEST_WAIT) end
    till = now + wait
  end
  if till ~= was then set = now end
  return till, format('%d %d %d', set, till, wait)
end

local function learn_rate(till)
  local n, elapsed = taken(), max(call_begun - mark_at, 1)
  if rate_learned == 0 then n = max(n, 1) end
  if anew == 1 then elapsed = elapsed + PRIOR_BURST else elapsed = max(elapsed - idle, 1) end
  local found = min(div(n * CALL_UNIT, elapsed), MAX_RATE)
  if now - event_at > SMOOTH_FOR then smooth = 0 end
  local safe_rate = div(found * 97, 100)
  if rate_learned == 0 then
    rate_learned = safe_rate
  elseif n > 0 and anew == 0 and call_begun - park_to < EARLY_WITHIN then
    rate_learned = clamp(safe_rate, div(rate_learned * 7, 10), div(rate_learned * 95, 100))
    smooth = min(smooth + 1, MOST_SMOOTH)
  else
    rate_learned = clamp(safe_rate, div(rate_learned, 2), div(rate_learned * 95, 100))
  end
  if anew == 0 and 10 * math.abs(found - estimate) <= estimate then sure = min(sure + 1, MOST_SURE) else sure = 0 end
  rate_learned = max(rate_learned, MIN_RATE)
  estimate = max(found, rate_learned)
  req, grow_at = 0, till + GROW_PAUSE
end

local function learn_cap(till)
  crowd = 1
  cap, cap_at = 1000 * max(call_flight - 1, 1), till
  cap_wait = clamp(2 * cap_wait, FIRST_CAP, MOST_CAP)
  safe, proven, grown = max(call_flight - 2, 1), 0, 0
end

-- refused learns from a call that was refused and parked the model until till.
local function refused(till)
  if call_begun < event_at then
    if crowd == 1 then cap, taught = min(cap, 1000 * max(call_flight - 1, 1)), true end
    return
  end
  taught = true
  local first = rate_learned == 0 and cap == 0
  local crowded = first or cap > 0 and call_flight > safe and proven < ENOUGH
  if not crowded or first then learn_rate(till) end
  crowd = 0
  if crowded then learn_cap(till) end
  mark_at, mark_n, lost, anew = call_begun, call_n, 0, crowd
  event_at, park_to = now, till
  local pause = till - call_begun
  if retry_after > TOLD_PAUSE then
    idle = 0
  elseif smooth >= SMOOTH_FROM then
    idle = pause
  else
    idle = max(pause - PRIOR_BURST, 0)
  end
end

if op == 'settle' then
  settled()
  if call_n then hear() end
elseif op == 'cancel' then
  forget_ticket()
  if call_n then
    lose()
    pay(-call_tokens)
    if rate > 0 then req = min(req + CALL_UNIT, burst) end
  end
elseif op == 'restart' then
  ramp, req, taught = now, 0, true
end
if op ~= 'park' and not (op == 'settle' and kind == LIMITED) then
  save()
  return 0
end
local till, text = park(lane_park)
if op == 'settle' and call_n and lane == '' then refused(till) end
save('park:' .. lane, text)
return till - now
