-- Moves a batch in the index of ends to be told of, or takes it out, unless its
-- place changed meanwhile: then it has a new end. It stands alone, without lib.lua.
-- KEYS[1]  the index
-- ARGV: batch, the place that was seen (ms), the new one (ms; 0: out)
-- Returns 1 done, 0 it has another place
local place = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not place or tonumber(place) ~= tonumber(ARGV[2]) then return 0 end
if tonumber(ARGV[3]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
end
return 1
