-- Writes a worker's heartbeat, stamped with Redis time, and drops those of long ago.
-- KEYS[1] hash: worker ID -> "<ms> <JSON>"
-- ARGV[1] worker ID
-- ARGV[2] JSON; empty removes the worker
-- ARGV[3] age in ms up to which heartbeats are returned
-- ARGV[4] age in ms after which a heartbeat is dropped
-- Returns ID, age in ms and JSON of each, one after the other
local key, id, body, shown, kept = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if id ~= '' then
  if body == '' then
    redis.call('HDEL', key, id)
  else
    redis.call('HSET', key, id, string.format('%.0f ', now) .. body)
  end
end
local found, all = {}, redis.call('HGETALL', key)
for i = 1, #all, 2 do
  local at, json = string.match(all[i + 1], '^(%d+) (.*)$')
  local age = at and now - tonumber(at) or kept + 1
  if age > kept then
    redis.call('HDEL', key, all[i])
  elseif age <= shown then
    found[#found + 1] = all[i]
    found[#found + 1] = string.format('%.0f', math.max(age, 0))
    found[#found + 1] = json
  end
end
return found
