-- Parks a model after a refusal, or tells how long it is parked. It must agree
-- with park.go, field for field.
--
-- KEYS[1] park    hash: at, until, wait (see State)
-- ARGV[1] now     ms; "" takes the server's clock
-- ARGV[2] op      "park" or "parked"
-- ARGV[3] retry_after  ms, clamped; 0: none
-- ARGV[4] first_wait, ARGV[5] longest_wait, ARGV[6] max_step_back  ms
-- ARGV[7] ttl     ms beyond the park's end, garbage collection only
-- Replies for how many ms the model is parked; 0: it is not.
local park, op, retry_after = KEYS[1], ARGV[2], tonumber(ARGV[3])
local first_wait, longest_wait, max_step_back = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl = tonumber(ARGV[7])

local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local stored = redis.call('HMGET', park, 'at', 'until', 'wait')
local at, till, wait = tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3] or 0)
if now < at - max_step_back then at, till, wait = 0, 0, 0 end

if op == 'parked' then return math.max(till - now, 0) end

local parked_till = till
if retry_after > 0 then
  parked_till = math.max(till, now + retry_after)
elseif now >= till then
  if wait == 0 or now > till + 2 * wait then
    wait = first_wait
  else
    wait = math.min(2 * wait, longest_wait)
  end
  parked_till = now + wait
end
if parked_till ~= till then
  local function text(n) return string.format('%.0f', n) end
  redis.call('HSET', park, 'at', text(now), 'until', text(parked_till), 'wait', text(wait))
  redis.call('PEXPIRE', park, text(parked_till - now + ttl))
end
return parked_till - now
