-- Makes a batch that is over or cancelled vanish: no other script finds it any
-- more. What it was is kept until everything of it is freed.
-- Returns a code and the description: 1 gone, 2 no such batch, 7 it is not over
local gone = base .. 'gone'
local v = redis.call('HMGET', meta, 'd', 'finished_at', 'cancelled_at')
if not v[1] then
  local d = redis.call('HGET', gone, 'd')
  return {d and 1 or 2, d or ''}
end
if not v[2] and not v[3] then return {7, ''} end
redis.call('RENAME', meta, gone)
return {1, v[1]}
