-- Takes up to n tasks off a queue, each as asynq's own script takes one.
-- KEYS[1] pending, KEYS[2] paused, KEYS[3] active, KEYS[4] lease of the queue
-- ARGV[1] until when the leases last, Unix s   ARGV[2] what the keys of tasks begin with
-- ARGV[3] n
-- Returns the ID and the message of each, one after the other; the message of the
-- last is nothing where its task is gone, as asynq's script replies nothing then.
local pending, paused, active, lease = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expires, prefix, n = ARGV[1], ARGV[2], tonumber(ARGV[3])
local taken = {}
if redis.call('EXISTS', paused) == 1 then return taken end
local ids, leases, next = {}, {}, redis.call('LRANGE', pending, -n, -1)
for i = #next, 1, -1 do
  local id = next[i]
  local key = prefix .. id
  redis.call('HSET', key, 'state', 'active')
  redis.call('HDEL', key, 'pending_since')
  local msg = redis.call('HGET', key, 'msg')
  ids[#ids + 1] = id
  leases[#leases + 1], leases[#leases + 2] = expires, id
  taken[#taken + 1], taken[#taken + 2] = id, msg
  if not msg then break end
end
if #ids > 0 then
  redis.call('LTRIM', pending, 0, -#ids - 1)
  redis.call('LPUSH', active, unpack(ids))
  redis.call('ZADD', lease, unpack(leases))
end
return taken
