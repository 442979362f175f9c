-- Makes a completely written batch visible to the keeper.
-- ARGV: now (ms or ''), digest, number of chunks
-- Returns 1 done, 2 chunks are missing, 4 cancelled, 5 not open
local now, digest, n = now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local v = redis.call('HMGET', meta, 'digest', 'committed', 'cancelled_at', 'classes', 'total', 'failed')
if v[3] then return 4 end
if v[1] ~= digest then return 5 end
if v[2] then return 1 end
local lines = tonumber(v[6] or '0')
for class in string.gmatch(v[4] or '', '%d+') do
  lines = lines + tonumber(redis.call('HGET', meta, 'w:' .. class))
end
if redis.call('HLEN', chunks) ~= n or redis.call('ZCARD', index) ~= n or lines ~= tonumber(v[5]) then return 2 end
redis.call('HSET', meta, 'committed', '1')
finish_batch(now)
return 1
