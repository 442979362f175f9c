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
local lines, entries, since = {}, {}, num(now)
local taken = take(n, room)
for i, t in ipairs(taken) do
  local line, gen = num(t.line), num(t.gen)
  lines[#lines + 1], lines[#lines + 2] = line, gen
  entries[#entries + 1], entries[#entries + 2] = line, gen .. ' ' .. t.class .. ' ' .. since .. ' ' .. num(t.chunk)
  if i % 100 == 0 or i == #taken then -- unpack has its bounds
    redis.call('HSET', out, unpack(entries))
    entries = {}
  end
end
return lines
