-- Takes a lease on a line, or says why not.
-- ARGV: now (ms or ''), lease (ms), line, generation, token, crashes allowed,
--       have (the digest of the content whose chunk with the line is known; '': it
--       is to be sent; '-': it is not)
-- Returns a code and now (ms): 1 granted, with description, chunk, class,
-- crashes, progress, the lines outstanding, the compressed lines of the chunk
-- or '', and the deadline (ms); 2 over; 3 held by another, with the ms; 4 cancelled; 5 deadline passed;
-- 6 lost
local now, ms, line, gen, token = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local allowed, have = tonumber(ARGV[6]), ARGV[7]
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at', 'deadline', 'd',
  'total', 'succeeded', 'failed', 'expired', 'cancelled', 'digest')
if not v[1] then return {2, num(now)} end
local entry = entry_of(line)
if not entry or entry.gen ~= gen then return {2, num(now)} end

local holder, expires, first = lease_of(line)
if holder ~= token and expires > now then return {3, num(now), num(expires - now)} end
-- Of a line that nobody has begun, nothing is kept; a retry keeps the marks.
local bare = first or holder == '' and gen == 0
local crashes = bare and 0 or tonumber(redis.call('HGET', crash, line) or '0')
local list = bare and not first and {} or marks_of(line, holder, first)
local m = find_mark(list, token)
if m and not (holder == token and expires > 0) then return {2, num(now)} end -- a late message of an attempt that is over
if holder ~= token and expires > 0 then
  crashes = redis.call('HINCRBY', crash, line, 1)
end

local stored = progress_of(line, bare)
local deadline = tonumber(v[3])
local function over(outcome, code, reply)
  keep_mark(line, holder, first)
  end_line(line, gen, entry.class, outcome, '-', code, stored.body, now, bare and crashes == 0)
  finish_batch(now)
  return {reply, num(now)}
end
if v[2] then return over('c', CODES.c, 4) end
if deadline > 0 and deadline <= now then return over('x', CODES.x, 5) end
if crashes >= allowed then return over('f', 'task_lost', 6) end

local only = bare and #list == (m and 1 or 0)
hold(line, token, now + ms, only)
if not only then
  clear_wait(line, entry.class)
  if not m then
    list[#list + 1] = {token = token, calls = stored.calls, cost = stored.cost, ended = false}
    save_marks(line, list)
  end
end
local left = v[5] - (v[6] or 0) - (v[7] or 0) - (v[8] or 0) - (v[9] or 0)
local lines = have ~= '-' and have ~= v[10] and redis.call('HGET', chunks, entry.chunk) or ''
return {1, num(now), v[4], entry.chunk, entry.class, num(crashes), stored.body, num(left), lines, v[3]}
