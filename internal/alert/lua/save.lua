-- Writes what the keeper knows by now, and the messages that follow from it.
-- KEYS[1] hash: "epoch" of the last keeper; "from", since when alerts are told of (ms);
--         "o <event> <subject>" -> an occurrence, JSON
-- KEYS[2] hash of messages: receiver, creation (ms) and number -> JSON
-- ARGV[1] epoch of the keeper
-- ARGV[2] now (ms)
-- ARGV[3] how many fields of KEYS[1] follow, each with its value ('' removes it);
--         then fields and values of KEYS[2]
-- Returns 1, or -1 where a later keeper has written
local epoch, fields = tonumber(ARGV[1]), tonumber(ARGV[3])
if epoch < tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0') then return -1 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
redis.call('HSETNX', KEYS[1], 'from', ARGV[2])
for i = 4, #ARGV, 2 do
  if i >= 4 + 2 * fields then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  elseif ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1
