-- Restarts the age of out entries whose tasks were enqueued again.
-- ARGV: now (ms or ''), then line and generation of each
local now = now_ms(ARGV[1])
for i = 2, #ARGV, 2 do
  local e = redis.call('HGET', out, ARGV[i])
  if e then
    local g, c, _, k = string.match(e, '^(%d+) (%d+) (%d+) (%d+)$')
    if g == ARGV[i + 1] then
      redis.call('HSET', out, ARGV[i], g .. ' ' .. c .. ' ' .. num(now) .. ' ' .. k)
    end
  end
end
return 1
