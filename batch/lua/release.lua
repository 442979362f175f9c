-- Moves lines from the backlog to out.
-- ARGV: now (ms or ''), epoch of the keeper, n, then class and room of each bounded class
-- Returns line and generation of each, {} where there is nothing to release, or -1 fenced
local now, epoch, n = now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at')
if not v[1] then return {} end
if fence(epoch) then return -1 end
if v[2] then return {} end
local room = {}
for i = 4, #ARGV, 2 do room[ARGV[i]] = tonumber(ARGV[i + 1]) end
local lines = {}
local taken = take(n, room)
for _, t in ipairs(taken) do
  redis.call('HSET', out, num(t.line), num(t.gen) .. ' ' .. t.class .. ' ' .. num(now) .. ' ' .. num(t.chunk))
  lines[#lines + 1] = num(t.line)
  lines[#lines + 1] = num(t.gen)
end
return lines
