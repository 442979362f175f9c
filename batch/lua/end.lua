-- Ends lines that no live lease holds, released ones first; of those that fail,
-- since the batch spent its budget, only what is not released.
-- ARGV: now (ms or ''), epoch of the keeper, outcome (x c f), code, n
-- Returns how many, or -1 fenced
local now, epoch, outcome, code, n = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at', 'deadline')
if not v[1] then return 0 end
if fence(epoch) then return -1 end
local deadline = tonumber(v[3])
if outcome == 'c' and not v[2] or outcome == 'f' and v[2] then return 0 end
if outcome == 'x' and (deadline == 0 or deadline > now) then return 0 end

local ended = 0
local released = outcome == 'f' and {} or redis.call('HKEYS', out)
for _, line in ipairs(released) do
  if ended == n then break end
  local holder, expires, first = lease_of(line)
  if expires <= now then
    local entry = entry_of(line)
    keep_mark(line, holder, first)
    end_line(line, entry.gen, entry.class, outcome, '-', code, progress_of(line, first).body, now, first)
    ended = ended + 1
  end
end
for _, t in ipairs(take(n - ended, {})) do
  end_line(num(t.line), 0, t.class, outcome, '-', code, '', now, true)
  ended = ended + 1
end
if ended > 0 then finish_batch(now) end
return ended
