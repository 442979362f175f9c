-- Applies the end of a call, or another change that is no question. Stands in the
-- loop of pace.lua, which names KEYS and the shared ARGV; save.lua follows.
--
-- A call has: ticket; op, "settle", "cancel", "park" or "restart"; kind, 1 passed,
-- 2 limited, 3 unclear; retry_after ms, 0: none; tokens, 0: unknown; latency us, 0:
-- unknown; alone, 1 or 0; and what headers told, "": nothing, else of requests the
-- limit, 0: unknown, what remains, -1: unknown, and the reset in ms, and of tokens
-- the limit and what remains.
-- Its answer: for how many ms the lane is parked by this.
local op, kind, retry_after = ARGV[arg + 1], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
local PASSED, LIMITED = 1, 2
local settling, limited_now = op == 'settle', false

if settling then
  local tokens, took, alone = tonumber(ARGV[arg + 4]), tonumber(ARGV[arg + 5]), ARGV[arg + 6] == '1'
  gone = true
  if call_n then
    if tokens > 0 and tpm > 0 then
      tok = clamp(tok - (tokens - call_tokens) * TOKEN_UNIT, -tpm * MAX_DEBT, tpm * TOKEN_BURST)
    end
  elseif alone then
    begun = begun + 1
    if rate > 0 then req = max(req - CALL_UNIT, -burst) end
    if tpm > 0 then tok = clamp(tok - tokens * TOKEN_UNIT, -tpm * MAX_DEBT, tpm * TOKEN_BURST) end
  end
  limited_now = kind == LIMITED
  if not (call_n or alone) then
    took = 0
  elseif limited_now then
    limited = limited + 1
    if (call_n or 0) > mark_n then lost, taught = lost + 1, true end
  elseif kind == PASSED then
    passed = passed + 1
    local was = call_flight or 0
    if cap > 0 and was > safe and (call_begun or 0) >= cap_at and proven < ENOUGH then proven, taught = proven + 1, true end
    if rate_learned == 0 and cap == 0 then
      local w = window
      if w == 0 then w = FIRST_WINDOW end
      if 2000 * was >= w then
        local slow = min(1000 + floor(700000 / max(floor(took / 1000), 1)), 3000)
        window, taught = min(w + floor(1000000 / slow), 1000 * MAX_FLIGHT), true
      end
    end
    if took > 0 then
      if latency == 0 then latency = took end
      latency = floor((7 * latency + took) / 8)
    end
  end
elseif op == 'cancel' then
  gone = true
  if call_n then
    if call_n > mark_n then lost, taught = lost + 1, true end
    if tpm > 0 then tok = clamp(tok + call_tokens * TOKEN_UNIT, -tpm * MAX_DEBT, tpm * TOKEN_BURST) end
    if rate > 0 then req = min(req + CALL_UNIT, burst) end
  end
elseif op == 'restart' then
  ramp, req, taught = now, 0, true
end

-- Headers tell of the moment at which the call came.
local told = ARGV[arg + 7]
if settling and call_n and told ~= '' then
  local age = clamp(now - call_begun, 0, MAX_ELAPSED)
  local limit, remaining, reset, of_tokens, tokens_left = string.match(told, '^(%d+) (%-?%d+) (%d+) (%d+) (%-?%d+)$')
  limit, remaining, reset = tonumber(limit), tonumber(remaining), tonumber(reset)
  if limit > 0 then
    told_rate, told_at, taught = max(limit * 970, MIN_RATE), now, true
    rate = least(least(1000 * rpm, rate_learned), told_rate)
    if ramped > 0 then rate = least(rate, min(ramped * (CALL_UNIT / 1000), MAX_RATE)) end
    if remaining >= 0 then
      req = min(req, max(remaining * CALL_UNIT + age * rate - min(begun - call_n, MAX_FLIGHT) * CALL_UNIT, 0))
    end
    if remaining == 0 then
      if 20 * math.abs(reset - 60000) <= 60000 then reset = floor(reset / limit) else reset = min(reset, MAX_HOLD) end
      hold = max(hold, call_begun + reset)
    end
  end
  limit, remaining = tonumber(of_tokens), tonumber(tokens_left)
  if limit > 0 then
    told_tpm, told_at, taught = max(floor(limit * 97 / 100), 1), now, true
    if remaining >= 0 then tok = min(tok, remaining * TOKEN_UNIT + age * least(tpm_set, told_tpm)) end
  end
end

answer = 0
if op == 'park' or limited_now then
  -- The park, as in park.go.
  local taken = clamp((call_n or 0) - mark_n - lost, 0, MAX_TAKEN)
  local set, ends_at, wait = string.match(lane_park, '(%d+) (%d+) (%d+)')
  set, ends_at, wait = tonumber(set), tonumber(ends_at), tonumber(wait)
  if now < set - MAX_STEP_BACK then set, ends_at, wait = 0, 0, 0 end
  local was, ours = ends_at, limited_now and call_n and lane == ''
  if ours and taken >= STREAK_ENDS then wait = 0 end
  if retry_after > 0 then
    ends_at = max(ends_at, now + retry_after)
  elseif now >= ends_at then
    if wait == 0 or now > ends_at + 2 * wait then wait = FIRST_WAIT else wait = min(2 * wait, LONGEST_WAIT) end
    ends_at = now + wait
  end
  if ends_at ~= was then set = now end
  answer, parked, lane_park = ends_at - now, true, format('%d %d %d', set, ends_at, wait)

  -- What the refusal teaches. Calls that began before the last one was known say
  -- nothing new.
  if ours and call_begun < event_at then
    if crowd == 1 then cap, taught = min(cap, 1000 * max(call_flight - 1, 1)), true end
  elseif ours then
    taught = true
    local first = rate_learned == 0 and cap == 0
    local crowded = first or cap > 0 and call_flight > safe and proven < ENOUGH
    if not crowded or first then
      local elapsed = max(call_begun - mark_at, 1)
      if rate_learned == 0 then taken = max(taken, 1) end
      if anew == 1 then elapsed = elapsed + PRIOR_BURST else elapsed = max(elapsed - idle, 1) end
      local found = min(floor(taken * CALL_UNIT / elapsed), MAX_RATE)
      if now - event_at > SMOOTH_FOR then smooth = 0 end
      local below = floor(found * 97 / 100)
      if rate_learned == 0 then
        rate_learned = below
      elseif taken > 0 and anew == 0 and call_begun - park_to < EARLY_WITHIN then -- our own burst was too much
        rate_learned = clamp(below, floor(rate_learned * 7 / 10), floor(rate_learned * 95 / 100))
        smooth = min(smooth + 1, MOST_SMOOTH)
      else
        rate_learned = clamp(below, floor(rate_learned / 2), floor(rate_learned * 95 / 100))
      end
      if anew == 0 and 10 * math.abs(found - estimate) <= estimate then sure = min(sure + 1, MOST_SURE) else sure = 0 end
      rate_learned = max(rate_learned, MIN_RATE)
      estimate = max(found, rate_learned)
      req, grow_at = 0, ends_at + GROW_PAUSE
    end
    crowd = 0
    if crowded then
      crowd = 1
      cap, cap_at = 1000 * max(call_flight - 1, 1), ends_at
      cap_wait = clamp(2 * cap_wait, FIRST_CAP, MOST_CAP)
      safe, proven, grown = max(call_flight - 2, 1), 0, 0
    end
    mark_at, mark_n, lost, anew = call_begun, call_n, 0, crowd
    event_at, park_to = now, ends_at
    local pause = ends_at - call_begun
    if retry_after > TOLD_PAUSE then
      idle = 0
    elseif smooth >= SMOOTH_FROM then
      idle = pause
    else
      idle = max(pause - PRIOR_BURST, 0)
    end
  end
end
