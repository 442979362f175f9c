-- Writes a worker's heartbeat, stamped with Redis time, and drops dead ones.
-- KEYS[1] hash: worker ID -> "<ms> <JSON>"
-- ARGV[1] worker ID
-- ARGV[2] JSON; empty removes the worker
-- ARGV[3] age in ms after which a heartbeat is dropped
-- Returns all live heartbeats: ID, JSON, ID, JSON, ...
local key, id, body, age = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if id ~= '' then
  if body == '' then
    redis.call('HDEL', key, id)
  else
    redis.call('HSET', key, id, string.format('%.0f ', now) .. body)
  end
end
local live, all = {}, redis.call('HGETALL', key)
for i = 1, #all, 2 do
  local at, json = string.match(all[i + 1], '^(%d+) (.*)$')
  if not at or now - tonumber(at) > age then
    redis.call('HDEL', key, all[i])
  else
    live[#live + 1] = all[i]
    live[#live + 1] = json
  end
end
return live
