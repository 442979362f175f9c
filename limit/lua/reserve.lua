-- Asks for a call: lets it go, gives it a place or refuses. Stands in the loop of
-- pace.lua, which names KEYS and the shared ARGV; save.lua follows.
--
-- A call has: ticket, tokens, patience ms, lease ms
-- Its answer: 1, go; or verdict (2 wait, 3 refuse), wait ms, reason, ms left of a park.
local tokens, patience, lease = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
local needed, poll, why, left = 0, 0, '', 0

-- A park of the model, or of the lane, where it is not parked.
local of_lane = false
if own_park ~= '0 0 0' then
  local set, till = string.match(own_park, '(%d+) (%d+)')
  if now >= set - MAX_STEP_BACK then left = max(till - now, 0) end
end
if left == 0 and lane_park ~= '0 0 0' then
  local set, till = string.match(lane_park, '(%d+) (%d+)')
  if now >= set - MAX_STEP_BACK then left = max(till - now, 0) end
  of_lane = left > 0
end

if call_n then
  left = 0
elseif left > 0 then
  needed, poll, why = left, PARK_POLL, 'parked'
else
  -- The places before this one, and their tokens.
  local rank, before = waiting, wait_tok
  if place_seq then
    rank, before = call('ZRANK', places, ticket) or 0, 0
    if tpm > 0 and rank > EXACT_RANKS then
      before = floor(min(wait_tok, MAX_AHEAD) * rank / waiting)
    elseif tpm > 0 and rank > 0 then
      local first, names = call('ZRANGE', places, 0, rank - 1), {}
      for i, t in ipairs(first) do names[i] = 't:' .. t end
      for i, p in ipairs(call('HMGET', key, unpack(names))) do
        before = before + (string.match(state[first[i]] or p or '', '^p %d+ (%d+)') or 0)
      end
    end
  end
  if hold > now then
    needed = min(hold - now, MAX_HOLD)
    poll, why = needed, 'parked'
  end
  if rate > 0 then
    local d = ceil((rank + 1) * CALL_UNIT - req, rate)
    if d > needed then needed, poll, why = d, d, 'requests' end
  end
  if tpm > 0 then
    local d = ceil(min(before, MAX_AHEAD) * TOKEN_UNIT + min(tokens * TOKEN_UNIT, tpm * TOKEN_BURST) - tok, tpm)
    if d > needed then needed, poll, why = d, d, 'tokens' end
  end
  if concurrency > 0 and flight + rank + 1 > concurrency then
    local ms = clamp(floor(latency / 1000), 8, 600000)
    local d = max(floor((flight + rank + 1 - concurrency) * ms / concurrency), 1)
    local p = clamp(floor(ms / 32), SHORT_POLL, 250) + floor(floor(rank * ms / concurrency) / 2)
    if starting then d, p = min(d, LONG_POLL), min(p, clamp(floor(latency / 2000), 20, 500)) end
    if d > needed then needed, poll, why = d, p, 'concurrency' end
  end
  poll = min(poll, LONG_POLL)

  -- Which learned limit makes a call wait: only that one may grow.
  if why == 'requests' and rate_learned > 0 and rate == rate_learned then
    if now - pressed > FRESH_PRESS then grow_at, taught = max(grow_at, now), true end
    if now - pressed >= GROW_STEP then pressed, taught = now, true end
  elseif why == 'concurrency' and concurrency == learned_flight then
    if now - full > FRESH_PRESS then window_at, taught = now, true end
    if now - full >= GROW_STEP then full, taught = now, true end
  end
end

if call_n then
  answer = 1 -- its answer was lost
elseif needed == 0 then
  if place_seq then
    call('ZREM', places, ticket)
    waiting, wait_tok = waiting - 1, wait_tok - place_tokens
  end
  if mark_at == 0 or flight == 0 and now - max(last, park_to, pressed) > IDLE_AFTER then
    mark_at, mark_n, lost, anew, taught = now, begun, 0, 1, true
  end
  last, begun, flight = now, begun + 1, flight + 1
  till = now + lease
  next_end = least(next_end, till)
  if rate > 0 then req = max(req - CALL_UNIT, -burst) end
  if tpm > 0 then tok = clamp(tok - tokens * TOKEN_UNIT, -tpm * MAX_DEBT, tpm * TOKEN_BURST) end
  value = format('c %d %d %d %d %d', begun, now, flight, tokens, till)
  answer = 1
elseif needed > patience then
  gone = true
  if why ~= 'parked' then needed = clamp(floor(needed / 2), LONG_POLL, MAX_LATER) end
  answer = {3, needed, why, left}
elseif of_lane then -- who cannot go must not stand before those who can
  gone = true
  answer = {2, min(left, PARK_POLL), why, left}
else
  poll = max(min(needed, poll), SHORT_POLL)
  if not place_seq then
    seq, waiting = seq + 1, waiting + 1
    place_seq, place_tokens = seq, 0
    call('ZADD', places, seq, ticket)
  end
  wait_tok = wait_tok + tokens - place_tokens
  till = now + poll + PLACE_KEPT
  next_end = least(next_end, till)
  value = format('p %d %d %d', place_seq, tokens, till)
  answer = {2, poll, why, left}
end
