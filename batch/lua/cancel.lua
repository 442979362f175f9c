-- Marks a batch as cancelled. One that was never written completely is closed
-- with the lines that were, so that it settles too.
-- ARGV: now (ms or '')
-- Returns 1 done (or over already), 2 no such batch
local now = now_ms(ARGV[1])
local v = redis.call('HMGET', meta, 'total', 'committed', 'finished_at', 'cancelled_at', 'classes', 'failed')
if not v[1] then return 2 end
if v[3] or v[4] then return 1 end
redis.call('HSET', meta, 'cancelled_at', num(now))
if not v[2] then
  local lines = tonumber(v[6] or '0')
  for class in string.gmatch(v[5] or '', '%d+') do
    lines = lines + tonumber(redis.call('HGET', meta, 'w:' .. class))
  end
  redis.call('HSET', meta, 'total', num(lines), 'committed', '1')
  finish_batch(now)
end
return 1
