-- Takes a lease on a line, or says why not.
-- ARGV: now (ms or ''), lease (ms), line, generation, token, crashes allowed
-- Returns a code and now (ms): 1 granted, with description, chunk, class,
-- crashes, progress and the lines outstanding; 2 over; 3 held by another, with the ms; 4 cancelled;
-- 5 deadline passed; 6 lost
local now, ms, line, gen, token = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local allowed = tonumber(ARGV[6])
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at', 'deadline', 'd')
if not v[1] then return {2, num(now)} end
local entry = entry_of(line)
if not entry or entry.gen ~= gen then return {2, num(now)} end

local crashes = tonumber(redis.call('HGET', crash, line) or '0')
local holder, expires = lease_of(line)
if holder ~= token and expires > now then return {3, num(now), num(expires - now)} end
local list = marks_of(line)
local m = find_mark(list, token)
if m and not (holder == token and expires > 0) then return {2, num(now)} end -- a late message of an attempt that is over
if holder ~= token and expires > 0 then
  crashes = redis.call('HINCRBY', crash, line, 1)
end

local stored = progress_of(line)
local deadline = tonumber(v[3])
local function over(outcome, code, reply)
  end_line(line, gen, entry.class, outcome, '-', code, stored.body, now)
  finish_batch(now)
  return {reply, num(now)}
end
if v[2] then return over('c', 'batch_cancelled', 4) end
if deadline > 0 and deadline <= now then return over('x', 'batch_expired', 5) end
if crashes >= allowed then return over('f', 'task_lost', 6) end

redis.call('HSET', lease, line, num(now + ms) .. ' ' .. token)
clear_wait(line, entry.class)
if not m then
  list[#list + 1] = {token = token, calls = stored.calls, cost = stored.cost, ended = false}
  save_marks(line, list)
end
return {1, num(now), v[4], entry.chunk, entry.class, num(crashes), stored.body, num(outstanding())}
