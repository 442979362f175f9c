-- Takes the next try at telling of a batch's end. What stands in the state about
-- an earlier end (the batch was retried since) is forgotten.
-- ARGV: now (ms or ''), epoch of the keeper, hold (ms until another may try, should
--       this one never settle)
-- Returns a code first: 1 taken, with the end (ms), the number of the try, the ms
-- since the first and when the hold ends (ms); 2 there is nothing to tell; 3 not
-- yet, with when it is due (ms); -1 fenced
local now, epoch, hold = now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local v = redis.call('HMGET', meta, 'finished_at', 'notify_end', 'notify_tries', 'notify_first', 'notify_next')
if not v[1] then return {2} end
if fence(epoch) then return {-1} end
local tries, first = 0, now
if v[2] == v[1] then
  if not v[5] then return {2} end
  if tonumber(v[5]) > now then return {3, tonumber(v[5])} end
  tries, first = tonumber(v[3]), tonumber(v[4])
else
  redis.call('HDEL', meta, 'notify_told', 'notify_error')
end
redis.call('HSET', meta, 'notify_end', v[1], 'notify_tries', num(tries + 1),
  'notify_first', num(first), 'notify_next', num(now + hold))
return {1, tonumber(v[1]), tries + 1, now - first, now + hold}
