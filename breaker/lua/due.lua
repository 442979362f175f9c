-- Lists the models of a provider to probe, and forgets breakers whose record is
-- gone.
--
-- KEYS[1] due            zset, see record.lua
-- ARGV[1] now            ms; "" takes the server's clock
-- ARGV[2] model_prefix   of the models' breakers, under the same hash tag
-- ARGV[3] parent_prefix  of the parents', followed by the region
-- Replies scope, model and region of each: scope 1 for the model's own breaker,
-- 2 for its parent's whose turn falls on it.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- turn is the model after the last that was probed, of those still wanted.
local function turn(wants, probed)
  local first, last_was
  for ms, name in string.gmatch(wants or '', '(%d+) ([^\n]*)\n') do
    if tonumber(ms) > now then
      if last_was then return name end
      first = first or name
      last_was = name == probed
    end
  end
  return first
end

local list = {}
local function add(scope, model, region)
  list[#list + 1], list[#list + 2], list[#list + 3] = scope, model, region
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))) do
  local model, region = string.match(member, '^([^\n]*)\n?(.*)$')
  local parent = ARGV[3] .. region
  local key = model == '' and parent or ARGV[2] .. model
  local r = redis.call('HMGET', key, 'wanted', 'task_next', 'wants', 'probed')
  if not r[1] then
    redis.call('ZREM', KEYS[1], member)
  elseif (tonumber(r[1]) or 0) > now and r[2] ~= '1' then
    if model == '' then
      local next = turn(r[3], r[4])
      if next then add('2', next, region) end
    else
      local state = redis.call('HGET', parent, 'state')
      if state ~= 'open' and state ~= 'half_open' then add('1', model, region) end
    end
  end
end
return list
