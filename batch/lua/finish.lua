-- Writes the record of a line, once.
-- ARGV: now (ms or ''), line, generation, token, calls, cost, deferrals,
--       outcome (s f x c), degraded (0 1), cached (0 1), record, who answered
--       (a model; '': nobody), code of what went wrong ('-': none)
-- Returns 1 done, 2 fenced
local now, line, gen, token = now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local calls, cost, deferrals = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local outcome, degraded, cached, body, model = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11], ARGV[12]
local left = outstanding()
if not left then return 2 end

local entry = entry_of(line)
local holder, expires, first = lease_of(line)
local current = entry and entry.gen == gen
local held = holder == token and expires > 0
if not current or not (held or outcome == 's') then
  local r = redis.call('HGET', rec, line)
  if r then
    local g, t = string.match(r, '^%a (%d+) %d+ (%S+) ')
    if tonumber(g) == gen and t == token then return 1 end -- a repeated message
  end
  book_waste(line, token, calls, cost, true)
  return 2
end

local stored = progress_of(line, first)
local list = marks_of(line, holder, first)
local m = find_mark(list, token)
if m then
  -- What others have stored since, the record does not show; what of this
  -- attempt was booked as waste meanwhile, it does.
  incr('wasted', stored.cost - m.cost)
else -- forgotten: count at least what the line did not know of
  m = {calls = stored.calls, cost = math.min(stored.cost, cost)}
end
book(m, calls, cost, false)
if deferrals > stored.deferrals then incr('deferrals', deferrals - stored.deferrals) end
incr('degraded', degraded)
incr('cached', cached)
if outcome == 's' then answered(model, 1) end
local others = {}
for _, o in ipairs(list) do
  if o ~= m then others[#others + 1] = o end
end
if #others > 0 or not first then save_marks(line, others) end
end_line(line, gen, entry.class, outcome, token, ARGV[13], body, now, first)
if left <= 1 then redis.call('HSET', meta, 'finished_at', num(now)) end
return 1
