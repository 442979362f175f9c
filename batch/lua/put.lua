-- Adds one chunk to a batch that is being submitted.
-- ARGV: digest, chunk, first line, index entry, compressed lines, then class and count of each class
-- Returns 1 added, 2 there already, 3 another chunk is there, 4 cancelled, 5 not open
local digest, chunk, first, entry, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local v = redis.call('HMGET', meta, 'digest', 'committed', 'cancelled_at', 'classes')
if v[3] then return 4 end
if v[1] ~= digest then return 5 end
if redis.call('HEXISTS', chunks, chunk) == 1 then
  if redis.call('ZSCORE', index, entry) then return 2 end
  return 3
end
if v[2] then return 5 end
redis.call('HSET', chunks, chunk, body)
redis.call('ZADD', index, first, entry)
local classes = v[4] or ''
for i = 6, #ARGV, 2 do
  if redis.call('HINCRBY', meta, 'w:' .. ARGV[i], ARGV[i + 1]) == tonumber(ARGV[i + 1]) then
    classes = classes .. ' ' .. ARGV[i]
  end
end
redis.call('HSET', meta, 'classes', classes)
return 1
