-- Frees the lease of an attempt and puts the line back to waiting.
-- ARGV: line, generation, token, calls, cost, deferrals, progress, wait ('': for nothing),
--       reason of it, of a fixed set
-- Returns 1 done, 2 fenced
local line, gen, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local calls, cost, deferrals, body = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local waits = ARGV[8]
if redis.call('EXISTS', meta) == 0 then return 2 end
local entry = entry_of(line)
local holder, expires, first = lease_of(line)
local current = entry and entry.gen == gen and holder == token
if current and expires == 0 then return 1 end -- a repeated message
if not current then
  book_waste(line, token, calls, cost, true)
  return 2
end
local list = marks_of(line, holder, first)
local m = find_mark(list, token)
book(m, calls, cost, false)
store_progress(line, calls, cost, deferrals, body, first, ARGV[9] ~= '' and ARGV[9])
m.ended = true
save_marks(line, list)
hold(line, token, 0)
if waits ~= '' then
  redis.call('HSET', wait, line, waits) -- there is none: begin takes it away
  incr('def:' .. entry.class, 1)
end
return 1
