-- Ends lines with answers of the keeper's, which cost no call and are degraded.
-- Each must be as undone.lua found it: a line that was begun or retried
-- meanwhile is left alone. Lines may be anywhere in the backlog.
-- ARGV: now (ms or ''), epoch of the keeper, then line, class, generation,
--       calls, deferrals, record and who answered (a model) of each
-- Returns how many, or -1 fenced; 0 once the deadline has passed
local now, epoch = now_ms(ARGV[1]), tonumber(ARGV[2])
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at', 'deadline')
if not v[1] then return 0 end
if fence(epoch) then return -1 end
local deadline = tonumber(v[3])
if v[2] or deadline > 0 and deadline <= now then return 0 end

-- take_back removes a line from the backlog, or says that it is not as it was. It
-- returns the class, and whether there is nothing to forget but a lease.
local function take_back(line, class, gen, calls, deferrals)
  if redis.call('HEXISTS', rec, line) == 1 then return nil end
  local entry = entry_of(line)
  if not entry then
    local retried, _, waiting = again_of(line, class)
    if (retried or 0) ~= gen then return nil end
    if retried then redis.call('ZREM', again .. class, waiting) end
    incr('w:' .. class, -1)
    return class, true
  end
  local holder, expires, first = lease_of(line)
  local p = progress_of(line, first)
  if entry.gen ~= gen or expires > now or p.calls ~= calls or p.deferrals ~= deferrals then return nil end
  keep_mark(line, holder, first)
  return entry.class, first
end

local ended = 0
for i = 3, #ARGV, 7 do
  local line, gen = ARGV[i], tonumber(ARGV[i + 2])
  local class, bare = take_back(line, ARGV[i + 1], gen, tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]))
  if class then
    end_line(line, gen, class, 's', '-', '-', ARGV[i + 5], now, bare)
    answered(ARGV[i + 6], 1)
    ended = ended + 1
  end
end
if ended > 0 then
  incr('degraded', ended)
  finish_batch(now)
end
return ended
