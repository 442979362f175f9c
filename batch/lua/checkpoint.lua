-- Writes the progress of an attempt before its next call and books its calls.
-- ARGV: now (ms or ''), lease (ms), line, generation, token, calls, cost, deferrals, progress
-- Returns 1 go on, 2 fenced, 3 the batch was cancelled
local now, ms, line, gen, token = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local calls, cost, deferrals, body = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at')
if not v[1] then return 2 end
local entry = entry_of(line)
local holder, expires, first = lease_of(line)
if not entry or entry.gen ~= gen or holder ~= token or expires == 0 then
  book_waste(line, token, calls, cost, false)
  return 2
end
local list = marks_of(line, holder, first)
local m = find_mark(list, token)
if calls >= m.calls then -- else a message that was overtaken by a later one
  book(m, calls, cost, false)
  store_progress(line, calls, cost, deferrals, body, first)
  save_marks(line, list)
end
hold(line, token, now + ms) -- under a first lease, calls >= m.calls
if v[2] then return 3 end
return 1
