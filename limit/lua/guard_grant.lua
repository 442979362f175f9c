-- Grants a batch calls of its own, once by person and time.
-- KEYS[1]  what the batch has of its own
-- ARGV[1]  calls   ARGV[2] who   ARGV[3] when (ms)   ARGV[4] ttl (ms)
local was = redis.call('HMGET', KEYS[1], 'granted_by', 'granted_at')
if was[1] == ARGV[2] and was[2] == ARGV[3] then return 0 end
redis.call('HINCRBY', KEYS[1], 'allowance', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'granted', ARGV[1])
redis.call('HSET', KEYS[1], 'granted_by', ARGV[2], 'granted_at', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
