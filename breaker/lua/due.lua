-- Lists the breakers of a provider whose probe is due and wanted, and forgets
-- those whose record is gone.
--
-- KEYS[1] due     zset, see record.lua
-- ARGV[1] now     ms; "" takes the server's clock
-- ARGV[2] prefix  of the breakers' keys, under the same hash tag as KEYS[1]
-- Replies the members.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local list = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))) do
  local model = string.match(member, '^[^\n]*')
  local wanted = redis.call('HGET', ARGV[2] .. model, 'wanted')
  if not wanted then
    redis.call('ZREM', KEYS[1], member)
  elseif tonumber(wanted) > now then
    list[#list + 1] = member
  end
end
return list
