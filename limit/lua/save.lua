-- Writes what the scripts before it changed, and replies.
if gone and mine then
  call('HDEL', key, 't:' .. ticket)
  call('ZREM', ends, ticket)
  if place_seq then
    call('ZREM', places, ticket)
    waiting, wait_tok = waiting - 1, wait_tok - place_tokens
  elseif call_n then
    flight = flight - 1
  end
end
local numbers = format(PACE_FORMAT, at, kept, req, tok, flight, waiting, next_end, seq, wait_tok, last, begun, passed, limited, latency)
local learned
if taught then
  learned = format(LEARNED_FORMAT,
    window, window_at, rate_learned, estimate, sure, grow_at, pressed, mark_at, mark_n, lost, anew, event_at, crowd, park_to,
    idle, smooth, full, cap, cap_at, cap_wait, grown, safe, proven, ramp, told_rate, told_tpm, told_at, hold)
end
if learned and field then
  call('HSET', key, 'pace', numbers, 'learned', learned, field, value)
elseif learned then
  call('HSET', key, 'pace', numbers, 'learned', learned)
elseif field then
  call('HSET', key, 'pace', numbers, field, value)
else
  call('HSET', key, 'pace', numbers)
end
if keep then call('PEXPIRE', key, TTL) end
if (keep or ends_was == 0) and flight + waiting > 0 then call('PEXPIRE', ends, TTL) end
if (keep or places_was == 0) and waiting > 0 then call('PEXPIRE', places, TTL) end
return answer
