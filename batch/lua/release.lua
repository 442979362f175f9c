-- Moves lines from the backlog to out.
-- ARGV: now (ms or ''), epoch of the keeper, n, then class and room of each bounded class
-- Returns the lines, {} where there is nothing to release, or -1 fenced
local now, epoch, n = now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at')
if not v[1] then return {} end
if fence(epoch) then return -1 end
if v[2] then return {} end
local room = {}
for i = 4, #ARGV, 2 do room[ARGV[i]] = tonumber(ARGV[i + 1]) end
local lines = {}
for _, t in ipairs(take(n, room)) do
  redis.call('HSET', out, num(t.line), '0 ' .. t.class .. ' ' .. num(now) .. ' ' .. num(t.chunk))
  lines[#lines + 1] = num(t.line)
end
return lines
