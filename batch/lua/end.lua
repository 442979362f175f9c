-- Ends lines that no live lease holds, released ones first; of those that fail,
-- since the batch spent its budget, only what is not released. It looks at about
-- n released lines and ends n at most.
-- ARGV: now (ms or ''), epoch of the keeper ('': another process, which may end
--       what is over by itself), outcome (x c f; '': x or c, whichever is due), n,
--       cursor ('' at first, then as it was returned)
-- Returns how many (-1 fenced) and the cursor, 'end' where nothing is left
local now, epoch, outcome, n, cursor = now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local v = redis.call('HMGET', meta, 'committed', 'cancelled_at', 'deadline')
if not v[1] then return {0, 'end'} end
if epoch ~= '' and fence(tonumber(epoch)) then return {-1, 'end'} end
local deadline = tonumber(v[3])
if outcome == '' then outcome = v[2] and 'c' or 'x' end
if outcome == 'c' and not v[2] or outcome == 'f' and (v[2] or epoch == '') then return {0, 'end'} end
if outcome == 'x' and (deadline == 0 or deadline > now) then return {0, 'end'} end

local ended = 0
if outcome == 'f' then cursor = 'backlog' end
if cursor ~= 'backlog' then
  local page = redis.call('HSCAN', out, cursor == '' and '0' or cursor, 'COUNT', n)
  local after = page[1] == '0' and 'backlog' or page[1]
  for i = 1, #page[2], 2 do
    local line = page[2][i]
    local holder, expires, first = lease_of(line)
    if expires <= now then
      if ended == n then
        after = cursor -- the rest of this page comes again
        break
      end
      local entry = entry_of(line)
      if entry then -- a page may hold a line twice
        keep_mark(line, holder, first)
        end_line(line, entry.gen, entry.class, outcome, '-', CODES[outcome], progress_of(line, first).body, now, first)
        ended = ended + 1
      end
    end
  end
  cursor = after
end
if cursor == 'backlog' and ended < n then
  local taken, more = take(n - ended, {})
  for _, t in ipairs(taken) do
    end_line(num(t.line), t.gen, t.class, outcome, '-', CODES[outcome], '', now, true)
  end
  ended = ended + #taken
  if not more then cursor = 'end' end
end
if ended > 0 then finish_batch(now) end
return {ended, cursor}
