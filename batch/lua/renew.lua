-- Renews leases, also expired ones that nobody took.
-- ARGV: now (ms or ''), lease (ms), then line, generation and token of each
-- Returns the places (from 0) of those that are lost: finished or taken
local now, ms = now_ms(ARGV[1]), tonumber(ARGV[2])
local lost = {}
for i = 3, #ARGV, 3 do
  local line, gen, token = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local entry = entry_of(line)
  local holder, expires, first = lease_of(line)
  if entry and entry.gen == gen and holder == token and expires > 0 then
    hold(line, token, now + ms, first)
  else
    lost[#lost + 1] = (i - 3) / 3
  end
end
return lost
