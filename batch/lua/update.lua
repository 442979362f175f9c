-- Changes the terms of a batch that is not over.
-- ARGV: now (ms or ''), then deadline (ms), priority and budget (nano-dollars),
--       each '' where it stays as it is
-- Returns 1 done, 2 no such batch, 3 done already, 4 cancelled, 5 the new deadline
-- has passed
local now, deadline = now_ms(ARGV[1]), ARGV[2]
local v = redis.call('HMGET', meta, 'd', 'finished_at', 'cancelled_at')
if not v[1] then return 2 end
if v[3] then return 4 end
if v[2] then return 3 end
if deadline ~= '' and tonumber(deadline) <= now then return 5 end
for i, field in ipairs({'deadline', 'priority', 'budget'}) do
  if ARGV[i + 1] ~= '' then redis.call('HSET', meta, field, ARGV[i + 1]) end
end
return 1
