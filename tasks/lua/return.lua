-- Gives back tasks that were taken and not handed out, to the head of their queue,
-- each as asynq's own script requeues one; unless they were recovered meanwhile, and
-- perhaps taken by another: then their lease is gone, or has another end.
-- KEYS[1] pending, KEYS[2] active, KEYS[3] lease of the queue
-- ARGV[1] until when the leases last, Unix s   ARGV[2] what the keys of tasks begin with
-- From ARGV[3] on: the IDs, in the order in which they were taken
-- Returns how many went back.
local pending, active, lease = KEYS[1], KEYS[2], KEYS[3]
local expires, prefix, back = tonumber(ARGV[1]), ARGV[2], 0
for arg = #ARGV, 3, -1 do
  local id = ARGV[arg]
  if tonumber(redis.call('ZSCORE', lease, id) or '') == expires then
    redis.call('LREM', active, 0, id)
    redis.call('ZREM', lease, id)
    redis.call('RPUSH', pending, id)
    redis.call('HSET', prefix .. id, 'state', 'pending')
    back = back + 1
  end
end
return back
