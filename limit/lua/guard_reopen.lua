-- Sets an hour to nothing, as a person wants it.
-- KEYS[1]  the hour   KEYS[2] its lines with places   KEYS[3] when they are due
-- ARGV[1]  now (ms or '')   ARGV[2] who   ARGV[3] ttl (ms)
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
local seq = redis.call('HGET', KEYS[1], 'seq') or '0'
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'seq', seq, 'released', string.format('%.0f', now), 'released_by', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
