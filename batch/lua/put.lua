-- Adds chunks to a batch that is being submitted, those that are there already as
-- they are. Lines of them may have failed before they began: they get their records,
-- and the index entry has no run of them.
-- ARGV: now (ms or ''), digest, then of each chunk: its number, first line, index
--       entry, compressed lines, the number of its classes and of its failed lines,
--       class and count of each, line and message of each
-- Returns 1 added, 3 another chunk is there, 4 cancelled, 5 not open; of those
-- before it, all were added
local now, digest = now_ms(ARGV[1]), ARGV[2]
local FIRST, WIDTH = 3, 6
local v = redis.call('HMGET', meta, 'digest', 'committed', 'cancelled_at', 'classes')
if v[3] then return 4 end
if v[1] ~= digest then return 5 end

local classes = v[4] or ''
local found = classes
local counts = {}
local function count(field, by) counts[field] = (counts[field] or 0) + by end

-- wait_in counts lines that wait in a class.
local function wait_in(class, n)
  if not string.find(found .. ' ', ' ' .. class .. ' ', 1, true) then found = found .. ' ' .. class end
  count('w:' .. class, n)
end

-- add adds the chunk whose arguments begin at one, if it is not there, and returns
-- a code and where the next begins.
local function add(arg)
  local chunk, first, entry, body = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
  local failed_at = arg + WIDTH + 2 * tonumber(ARGV[arg + 4])
  local after = failed_at + 2 * tonumber(ARGV[arg + 5])
  if redis.call('HEXISTS', chunks, chunk) == 1 then
    return redis.call('ZSCORE', index, entry) and 1 or 3, after
  end
  if v[2] then return 5, after end
  redis.call('HSET', chunks, chunk, body)
  redis.call('ZADD', index, first, entry)
  for i = arg + WIDTH, failed_at - 1, 2 do wait_in(ARGV[i], tonumber(ARGV[i + 1])) end
  for i = failed_at, after - 1, 2 do
    redis.call('HSET', rec, ARGV[i], 'f 0 ' .. num(now) .. ' - invalid_request\n' .. ARGV[i + 1])
    redis.call('RPUSH', log, ARGV[i])
  end
  count('failed', (after - failed_at) / 2)
  count('err:invalid_request', (after - failed_at) / 2)
  count('passed', (after - failed_at) / 2)
  return 1, after
end

local arg, code = FIRST, 1
while arg <= #ARGV and code == 1 do code, arg = add(arg) end
for field, by in pairs(counts) do incr(field, by) end
if found ~= classes then redis.call('HSET', meta, 'classes', found) end
return code
