-- Tells how the lines ended that ended last, the newest first. It changes nothing.
-- ARGV: ends to look at, bytes of records to read at most (but for one)
-- Returns the line and the head of the record of each; a line that was taken back
-- by a retry has none
local n, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local entries = redis.call('LRANGE', log, -n, -1)
local told, size = {}, 0
for i = #entries, 1, -1 do
  local line, gen = string.match(entries[i], '^(%d+)%.?(%d*)$')
  local length = redis.call('HSTRLEN', rec, line)
  size = size + length
  if #told > 0 and size > bytes then break end
  local head = length > 0 and string.match(redis.call('HGET', rec, line), '^[^\n]*')
  if head and string.match(head, '^%a (%d+) ') == (gen == '' and '0' or gen) then
    told[#told + 1] = line
    told[#told + 1] = head
  end
end
return told
