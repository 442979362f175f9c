-- Replaces a message that is as it was read, or removes it.
-- KEYS[1] hash: "epoch" of the last keeper
-- KEYS[2] hash of messages
-- ARGV[1] epoch of the keeper; '' where it does not matter who asks
-- ARGV[2] field, ARGV[3] value that was read, ARGV[4] value to write; '' removes it
-- Returns 1 done, 0 it is another by now, -1 a later keeper has written
if ARGV[1] ~= '' and tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0') then return -1 end
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[2], ARGV[2])
else
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
end
return 1
