-- Renews a lease.
-- KEYS[1]  the leases
-- ARGV: now (ms, or '' for Redis time), line,
--       token
-- Returns 1
local now, line, token = ARGV[1], ARGV[2], ARGV[3]
return redis.call('HSET', KEYS[1], line, now .. token)
