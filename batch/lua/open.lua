-- Opens a batch for submission.
-- ARGV: now (ms or ''), digest, total, deadline (ms), created (ms, '' now), description
-- Returns {code, created}: 1 new, 2 begun before, 3 committed, 4 other content, 5 cancelled,
-- 6 one of that ID is being deleted
local now, digest, total, deadline = now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local created, description = ARGV[5], ARGV[6]
local v = redis.call('HMGET', meta, 'digest', 'committed', 'cancelled_at', 'created')
if v[1] then
  if v[1] ~= digest then return {4, v[4]} end
  if v[3] then return {5, v[4]} end
  if v[2] then return {3, v[4]} end
  return {2, v[4]}
end
if redis.call('EXISTS', base .. 'gone') == 1 then return {6, '0'} end
if created == '' then created = num(now) end
redis.call('HSET', meta, 'd', description, 'digest', digest, 'total', total, 'deadline', deadline, 'created', created)
return {1, created}
