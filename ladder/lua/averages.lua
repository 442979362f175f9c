-- Adds samples to the averages of a model; it must agree with Averages.then.
--
-- KEYS[1] averages  hash: success_sum, success_weight, latency_sum (ms),
--                   latency_weight, and at, the time of the last sample, ms
-- ARGV[1] now       ms; "" takes the server's clock
-- ARGV[2] to ARGV[5] the same four of the samples; without a weight of success
--                   nothing is written
-- ARGV[6] age       of the last of the samples, ms
-- ARGV[7] ttl       ms, garbage collection only
-- Replies the four numbers as texts, and the age of the last sample, ms.
local averages = KEYS[1]
local FIELDS = {'success_sum', 'success_weight', 'latency_sum', 'latency_weight'}

local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local stored = redis.call('HMGET', averages, unpack(FIELDS))
local at = tonumber(redis.call('HGET', averages, 'at') or now)
local x, sample = {}, {}
for i = 1, 4 do
  x[i], sample[i] = tonumber(stored[i] or 0), tonumber(ARGV[1 + i])
end

if sample[2] > 0 then
  for i = 1, 3, 2 do
    local left = 1 - sample[i + 1]
    x[i], x[i + 1] = x[i] * left + sample[i], x[i + 1] * left + sample[i + 1]
  end
  local last = now - tonumber(ARGV[6])
  if not stored[1] or last > at or at > now then at = last end
end

local reply = {}
for i = 1, 4 do reply[i] = string.format('%.17g', x[i]) end
if sample[2] > 0 then
  local args = {'at', string.format('%.0f', at)}
  for i = 1, 4 do
    args[#args + 1] = FIELDS[i]
    args[#args + 1] = reply[i]
  end
  redis.call('HSET', averages, unpack(args))
  redis.call('PEXPIRE', averages, ARGV[7])
end
reply[5] = math.max(now - at, 0)
return reply
