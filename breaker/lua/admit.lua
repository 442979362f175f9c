-- Admits tasks' calls, which may be probes (mode call) or not (noprobe), or probers,
-- one after another, where closed.lua did not. Follows record.lua, which names KEYS
-- and the shared ARGV.
--
-- From ARGV[19] on, of each call: id and mode
-- Answers GRANTED, REJECTED, or, to a prober, NOT_DUE.
local m, p

local function grant(l, lease)
  return reply(GRANTED, {epoch = m.epoch, parent_epoch = p.epoch, lease = lease, scope = l and l.scope}, m, p)
end

local function task_probes(l) return l.task or l.task_next == 1 end

local function rejected(l, may_probe)
  local r = {scope = l.scope, state = l.state, reason = l.reason}
  local n, _, last = leases(l)
  if l.state == 'open' then
    r.till = l.open_until
    r.retry_after = math.min(math.max(l.open_until - now, 0), l.max_cooldown)
    if r.retry_after == 0 or not may_probe or not task_probes(l) then r.retry_after = r.retry_after + l.probe_lease end
  elseif n > 0 then
    r.till = last
    r.retry_after = last - now
  else
    r.till = now
    r.retry_after = l.probe_lease
  end
  return r
end

-- reject answers with the level that lets calls through later.
local function reject(may_probe)
  if closed(p) then return reply(REJECTED, rejected(m, may_probe)) end
  local r = rejected(p, may_probe)
  if not closed(m) then
    local of_model = rejected(m, may_probe)
    if of_model.retry_after > r.retry_after then r = of_model end
  end
  return reply(REJECTED, r)
end

-- lent repeats the grant of a probe whose reply was lost.
local function lent()
  for _, l in ipairs({p, m}) do
    local till = string.match(l.leases, id .. ':(%d+),')
    if till then return grant(l, tonumber(till) - now) end
  end
end

local function lend(l)
  begin(m)
  begin(p)
  if l == p then p.probed = model end
  if l.state == 'open' then change(l, 'half_open', 'probe') end
  l.leases = l.leases .. id .. ':' .. text(now + l.probe_lease) .. ','
  return grant(l, l.probe_lease)
end

local function want()
  if not closed(m) and m.wanted < now + m.wanted_for / 2 then m.wanted = now + m.wanted_for end
  if closed(p) then return end
  local wants, found, fresh = '', false, false
  for ms, name in string.gmatch(p.wants, '(%d+) ([^\n]*)\n') do
    if name == model then
      found = true
      if tonumber(ms) < now + p.wanted_for / 2 then ms, fresh = text(now + p.wanted_for), true end
    end
    wants = wants .. ms .. ' ' .. name .. '\n'
  end
  if not found then wants, fresh = wants .. text(now + p.wanted_for) .. ' ' .. model .. '\n', true end
  p.wants = wants
  if fresh then p.wanted = now + p.wanted_for end
end

-- turn is the model to probe the parent through: the one after the last.
local function turn()
  local first, last_was
  for name in string.gmatch(p.wants, '%d+ ([^\n]*)\n') do
    if last_was then return name end
    first = first or name
    last_was = name == p.probed
  end
  return first
end

local function task_probe()
  if not closed(p) then
    local good = closed(m) or due_at(m) <= now
    if good and task_probes(p) and due_at(p) <= now then return lend(p) end
  elseif task_probes(m) and due_at(m) <= now then
    return lend(m)
  end
end

local function admit()
  if closed(m) and closed(p) then
    begin(m)
    begin(p)
    return grant()
  end
  local r = lent() or mode == 'call' and task_probe()
  if r then return r end
  want()
  return reject(mode == 'call')
end

local function admit_probe()
  local r = lent()
  if r then return r end
  local l = m
  if not closed(p) then l = p end
  if closed(l) then return reply(NOT_DUE, {}) end
  if l.leases ~= '' and not free(l) then return reject(false) end
  if task_probes(l) or l.wanted <= now or due_at(l) > now then return reply(NOT_DUE, {}) end
  if l == p and turn() ~= model then return reply(NOT_DUE, {}) end
  if l == p and held(m) == 'open' then
    p.probed = model
    return reply(NOT_DUE, {})
  end
  return lend(l)
end

local answers = {}
for arg = 19, #ARGV, 2 do
  id, mode = ARGV[arg], ARGV[arg + 1]
  m, p = level(MODEL), level(PARENT)
  if mode == 'prober' or not (closed(m) and closed(p)) then
    settle(m)
    settle(p)
  end
  answers[#answers + 1] = (mode == 'prober' and admit_probe or admit)()
  save(m)
  save(p)
end
return answers
