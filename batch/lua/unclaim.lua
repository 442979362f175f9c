-- Forgets that a batch has a content, unless another has it by now. It stands
-- alone, without lib.lua: a content is in another slot than its batch.
-- KEYS[1]  who has the content, see claimContent
-- ARGV: batch
-- Returns 1 forgotten, 0 it was not this batch's
local v = redis.call('GET', KEYS[1])
if not v or string.match(v, '^%S+') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
