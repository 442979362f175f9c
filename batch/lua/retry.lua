-- Takes lines that failed or expired back into the backlog, one generation higher:
-- of a piece of the log, those whose end there is the last. One that was passed
-- over at the submission has no request to send and stays.
-- ARGV: now (ms or ''), offset in the log, entries to look at, bytes of records to
--       read at most (but for one), deadline of the batch from now on (ms; '': as
--       it is), then the codes (none: any)
-- Returns a code, how many, and the next offset: 1 done, 2 no such batch,
-- 4 cancelled, 5 deadline passed, 6 not submitted completely
local now, offset, n, bytes, until_ms = now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local v = redis.call('HMGET', meta, 'total', 'committed', 'cancelled_at', 'deadline')
if not v[1] then return {2, 0, offset} end
if not v[2] then return {6, 0, offset} end
if v[3] then return {4, 0, offset} end
local deadline = tonumber(until_ms) or tonumber(v[4])
if deadline > 0 and deadline <= now then return {5, 0, offset} end
local wanted = nil
for i = 6, #ARGV do
  wanted = wanted or {}
  wanted[ARGV[i]] = true
end

-- failed_as returns the outcome and the code of a line's end where that is to be
-- retried.
local function failed_as(line, gen)
  local r = redis.call('HGET', rec, line)
  local outcome, g, token, code = string.match(r, '^(%a) (%d+) %d+ (%S+) (%S+)\n')
  if g ~= gen or outcome ~= 'f' and outcome ~= 'x' then return nil end
  if token == '-' and code == 'invalid_request' then return nil end
  if wanted and not wanted[code] then return nil end
  return outcome, code
end

-- place_of returns the chunk and the class of a line.
local function place_of(line)
  local number = tonumber(line)
  local e = redis.call('ZREVRANGEBYSCORE', index, line, '-inf', 'LIMIT', 0, 1)[1]
  for first, count, class in string.gmatch(e, '(%d+):(%d+):(%d+)') do
    if number >= tonumber(first) and number < tonumber(first) + tonumber(count) then
      return string.match(e, '^(%d+) '), class
    end
  end
end

local size, looked = 0, 0
local counts, codes = {}, {}
local function count(field, by) counts[field] = (counts[field] or 0) + by end
for _, entry in ipairs(n > 0 and redis.call('LRANGE', log, offset, offset + n - 1) or {}) do
  local line, gen = string.match(entry, '^(%d+)%.?(%d*)$')
  if gen == '' then gen = '0' end
  local length = redis.call('HSTRLEN', rec, line)
  size = size + length
  if looked > 0 and size > bytes then break end
  looked = looked + 1
  local outcome, code
  if length > 0 then outcome, code = failed_as(line, gen) end
  if outcome then
    local chunk, class = place_of(line)
    redis.call('HDEL', rec, line)
    redis.call('ZADD', again .. class, line, line .. ' ' .. num(tonumber(gen) + 1) .. ' ' .. chunk)
    count(COUNTERS[outcome], -1)
    codes[code] = (codes[code] or 0) + 1
    count('w:' .. class, 1)
    count('retried', 1)
  end
end
for field, by in pairs(counts) do incr(field, by) end
for code, n in pairs(codes) do -- which an earlier version did not count
  if redis.call('HINCRBY', meta, 'err:' .. code, -n) < 0 then redis.call('HSET', meta, 'err:' .. code, 0) end
end
local taken = counts.retried or 0
if taken > 0 then
  redis.call('HDEL', meta, 'finished_at')
  if until_ms ~= '' then redis.call('HSET', meta, 'deadline', until_ms) end
end
return {1, taken, offset + looked}
