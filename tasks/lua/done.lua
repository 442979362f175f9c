-- Removes tasks that are done, one after another, each as asynq's own script does.
-- KEYS[1] active, KEYS[2] lease of the queue
-- KEYS[3] how many it processed on a day, KEYS[4] ever
-- ARGV[1] when the day's number expires, Unix s   ARGV[2] the largest number there is
-- ARGV[3] what the keys of tasks begin with
-- From ARGV[4] on: the ID of each
-- Answers each with 1, or 0 where asynq would say that there is no such task.
local active, lease, today, ever = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expires, most, prefix, FIRST = ARGV[1], tonumber(ARGV[2]), ARGV[3], 4

local answers, n, leased = {}, 0, {}
local leases = redis.call('ZMSCORE', lease, unpack(ARGV, FIRST))
for i, has_lease in ipairs(leases) do
  local id, done = ARGV[FIRST + i - 1], 0
  if redis.call('LREM', active, 0, id) ~= 0 and has_lease then
    leased[#leased + 1] = id
    done = redis.call('DEL', prefix .. id)
  end
  answers[i], n = done, n + done
end
if #leased > 0 then redis.call('ZREM', lease, unpack(leased)) end
if n == 0 then return answers end
if redis.call('INCRBY', today, n) == n then redis.call('EXPIREAT', today, expires) end
if tonumber(redis.call('GET', ever) or '0') + n >= most then
  redis.call('SET', ever, n)
else
  redis.call('INCRBY', ever, n)
end
return answers
