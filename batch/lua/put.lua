-- Adds one chunk to a batch that is being submitted. Lines of it may have failed
-- before they began: they get their records, and the index entry has no run of them.
-- ARGV: now (ms or ''), digest, chunk, first line, index entry, compressed lines,
--       number of classes, then class and count of each, then line and message of
--       each failed line
-- Returns 1 added, 2 there already, 3 another chunk is there, 4 cancelled, 5 not open
local now, digest, chunk, first, entry, body = now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local classes_end = 7 + 2 * tonumber(ARGV[7])
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
for i = 8, classes_end, 2 do
  if redis.call('HINCRBY', meta, 'w:' .. ARGV[i], ARGV[i + 1]) == tonumber(ARGV[i + 1]) then
    classes = classes .. ' ' .. ARGV[i]
  end
end
redis.call('HSET', meta, 'classes', classes)
for i = classes_end + 1, #ARGV, 2 do
  redis.call('HSET', rec, ARGV[i], 'f 0 ' .. num(now) .. ' - invalid_request\n' .. ARGV[i + 1])
  redis.call('RPUSH', log, ARGV[i])
end
incr('failed', (#ARGV - classes_end) / 2)
incr('err:invalid_request', (#ARGV - classes_end) / 2)
return 1
