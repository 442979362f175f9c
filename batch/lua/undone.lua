-- Finds lines that have no record and that no live lease holds.
-- ARGV: now (ms or ''), then line and class of each
-- Returns line, generation, calls, deferrals and progress of each, one after the other
local now = now_ms(ARGV[1])
local found = {}
for i = 2, #ARGV, 2 do
  local line = ARGV[i]
  if redis.call('HEXISTS', rec, line) == 0 then
    local _, expires, first = lease_of(line)
    if expires <= now then
      local entry = entry_of(line)
      local p = progress_of(line, first)
      local gen = entry and entry.gen or again_of(line, ARGV[i + 1]) or 0
      for _, v in ipairs({line, num(gen), num(p.calls), num(p.deferrals), p.body}) do
        found[#found + 1] = v
      end
    end
  end
end
return found
