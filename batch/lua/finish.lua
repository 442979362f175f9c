-- Writes the records of lines, one after another, each once.
-- ARGV: now (ms or ''), then of each call: line, generation, token, calls, cost,
--       deferrals, outcome (s f x c), degraded (0 1), cached (0 1), record, who
--       answered (a model; '': nobody), code of what went wrong ('-': none)
-- Answers each with 1 done, 2 fenced
local now, FIRST, WIDTH = now_ms(ARGV[1]), 2, 12
local now_text = num(now)
local left = outstanding() -- nil: there is no such batch

-- finish writes the record of a line in any state.
local function finish(c)
  local line, gen, token = c.line, c.gen, c.token
  local entry = entry_of(line)
  local holder, expires, first = lease_of(line)
  local current = entry and entry.gen == gen
  local held = holder == token and expires > 0
  if not current or not (held or c.outcome == 's') then
    local r = redis.call('HGET', rec, line)
    if r then
      local g, t = string.match(r, '^%a (%d+) %d+ (%S+) ')
      if tonumber(g) == gen and t == token then return 1 end -- a repeated message
    end
    book_waste(line, token, c.calls, c.cost, true)
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
    m = {calls = stored.calls, cost = math.min(stored.cost, c.cost)}
  end
  book(m, c.calls, c.cost, false)
  if c.deferrals > stored.deferrals then incr('deferrals', c.deferrals - stored.deferrals) end
  incr('degraded', c.degraded)
  incr('cached', c.cached)
  if c.outcome == 's' then answered(c.model, 1) end
  local others = {}
  for _, o in ipairs(list) do
    if o ~= m then others[#others + 1] = o end
  end
  if #others > 0 or not first then save_marks(line, others) end
  end_line(line, gen, entry.class, c.outcome, token, c.code, c.body, now, first)
  left = left - 1
  if left <= 0 then redis.call('HSET', meta, 'finished_at', num(now)) end
  return 1
end

local outs, leases = lines_of(FIRST, WIDTH)
-- What quick ends of lines write together, see flush.
local ended, logged, records, counts, rated

local function begin()
  ended, logged, records, counts, rated = {}, {}, {}, {}, 0
end
begin()

local function count(field, by)
  if by ~= '0' then counts[field] = (counts[field] or 0) + by end
end

-- quick ends a line in its first attempt, of which there is nothing but its lease,
-- the usual case; nil: it is another. Who comes for the line again in this script
-- finds it ended.
local function quick(line, gen, token, calls, cost, deferrals, outcome, degraded, cached, body, model, code)
  local g, expires, holder = string.match(outs[line] or '', '^%d+'), string.match(leases[line] or '', '^(%d+) (%S+) first$')
  if g ~= gen or holder ~= token or expires == '0' then return end
  outs[line] = nil
  ended[#ended + 1], logged[#logged + 1] = line, log_entry(line, gen)
  records[#records + 1], records[#records + 2] = line, record(outcome, gen, now_text, token, code, body)
  if calls ~= '0' then
    count('calls', calls)
    count('cost', cost)
  end
  count('deferrals', deferrals)
  count('degraded', degraded)
  count('cached', cached)
  if outcome == 's' and model ~= '' then count('by:' .. model, 1) end
  count(COUNTERS[outcome], 1)
  if outcome ~= 's' then count('err:' .. code, 1) end
  if moves_on(outcome, code) then rated = rated + 1 end
  return 1
end

-- flush writes what quick ended.
local function flush()
  if #ended == 0 then return end
  redis.call('HSET', rec, unpack(records))
  redis.call('RPUSH', log, unpack(logged))
  redis.call('HDEL', out, unpack(ended))
  redis.call('HDEL', lease, unpack(ended))
  for field, by in pairs(counts) do incr(field, by) end
  if rated > 0 then count_rate(now, rated) end
  left = left - #ended
  if left <= 0 then redis.call('HSET', meta, 'finished_at', num(now)) end
  begin()
end

local answers = {}
for arg = FIRST, #ARGV, WIDTH do
  local answer = not left and 2 or quick(unpack(ARGV, arg, arg + WIDTH - 1))
  if not answer then
    flush()
    answer = finish({line = ARGV[arg], gen = tonumber(ARGV[arg + 1]), token = ARGV[arg + 2],
      calls = tonumber(ARGV[arg + 3]), cost = tonumber(ARGV[arg + 4]), deferrals = tonumber(ARGV[arg + 5]),
      outcome = ARGV[arg + 6], degraded = tonumber(ARGV[arg + 7]), cached = tonumber(ARGV[arg + 8]), body = ARGV[arg + 9], model = ARGV[arg + 10], code = ARGV[arg + 11]})
    outs[ARGV[arg]] = nil
  end
  answers[#answers + 1] = answer
end
flush()
return answers
