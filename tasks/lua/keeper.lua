-- Takes, renews or gives up the keeper's lease.
-- KEYS[1] hash: holder, until (ms), epoch; until is Redis time
-- ARGV[1] who asks
-- ARGV[2] length of the lease in ms; 0 gives it up
-- ARGV[3] now in ms for tests; empty: Redis time
-- Returns the epoch of the lease, or 0 when another holds it.
local key, me, length, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local holder = redis.call('HGET', key, 'holder')
local ends = tonumber(redis.call('HGET', key, 'until') or '0')
if holder ~= me and ends > now then
  return 0
end
if length == 0 then
  if holder == me then
    redis.call('HSET', key, 'until', 0)
  end
  return 0
end
if holder ~= me or ends <= now then
  redis.call('HINCRBY', key, 'epoch', 1)
end
redis.call('HSET', key, 'holder', me, 'until', string.format('%.0f', now + length))
return tonumber(redis.call('HGET', key, 'epoch'))
