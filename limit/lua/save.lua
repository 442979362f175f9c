-- Ends the loop over the calls, writes what they changed, and replies.
if gone and mine then
  state[ticket], changed[#changed + 1] = false, ticket
  if place_seq then
    call('ZREM', places, ticket)
    waiting, wait_tok = waiting - 1, wait_tok - place_tokens
  elseif call_n then
    flight = flight - 1
  end
elseif value then
  state[ticket], end_of[ticket], changed[#changed + 1] = value, till, ticket
end
if waiting == 0 then places_was = 0 end -- the next place begins a new set
answers[#answers + 1] = answer
stale, learnt, taught = taught, learnt or taught, false
end

local set, gone, scores, ended = {'pace', format(SEVEN .. SEVEN, at, kept, req, tok, flight, waiting, next_end, seq, wait_tok, last, begun, passed, limited, latency)}, {}, {}, {}
if learnt then
  set[3], set[4] = 'learned', format(SEVEN .. SEVEN .. SEVEN .. SEVEN,
    window, window_at, rate_learned, estimate, sure, grow_at, pressed, mark_at, mark_n, lost, anew, event_at, crowd, park_to,
    idle, smooth, full, cap, cap_at, cap_wait, grown, safe, proven, ramp, told_rate, told_tpm, told_at, hold)
end
if parked then set[#set + 1], set[#set + 2] = 'park:' .. lane, lane_park end
for _, t in ipairs(changed) do
  if state[t] then
    set[#set + 1], set[#set + 2] = 't:' .. t, state[t]
    scores[#scores + 1], scores[#scores + 2] = end_of[t], t
  else
    gone[#gone + 1], ended[#ended + 1] = 't:' .. t, t
  end
end
call('HSET', key, unpack(set))
if #scores > 0 then call('ZADD', ends, unpack(scores)) end
if #gone > 0 then
  call('HDEL', key, unpack(gone))
  call('ZREM', ends, unpack(ended))
end
if keep then call('PEXPIRE', key, TTL) end
if (keep or ends_was == 0) and flight + waiting > 0 then call('PEXPIRE', ends, TTL) end
if (keep or places_was == 0) and waiting > 0 then call('PEXPIRE', places, TTL) end
return answers
