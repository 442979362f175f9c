-- A model's breaker and its parent's, each a hash; the other scripts are
-- appended to this file. It must agree with record.go, step.go and probe.go,
-- reply for reply and field for field.
--
-- KEYS[1] model   hash: state, epoch, reason, open_until, cooldown, good, bad,
--                 void, task_next, wanted, probed, not_before (see Record), and
--                 ring     "<ms><mark><tag>," each, oldest first, of fixed width: 13
--                          digits, + or -, a failure, and, in a parent's ring, 8 hex
--                          digits for the model
--                 seen     the tickets counted last, oldest first
--                 leases   "<ticket>:<ms>," each
--                 wants    "<ms> <model>\n" each
--                 outputs  a mark each of the last judged answers of a model, oldest
--                          first: + valid, - invalid
--                 hold     "<state> <ms> <until or 0> <by>"
--                 history  "<ms> <from> <to> <reason>\n" each, newest first
-- KEYS[2] parent  hash, likewise
-- KEYS[3] due     zset of the provider: wanted breakers that are not closed,
--                 by the time at which a probe may begin
-- ARGV[1] now     ms; "" takes the server's clock
-- ARGV[2] model
-- ARGV[3] member of the due set, and the model's settings (see level):
-- ARGV[4] ttl         ms, garbage collection only
-- ARGV[5] max_cooldown, ARGV[6] probe_lease, ARGV[7] wanted_for  ms
-- ARGV[8] probes, ARGV[9] need  successes of a round of probes
-- ARGV[10] task       "1": tasks probe
-- ARGV[11] to ARGV[18] the same of the parent
local due, model, SETTINGS, PARENT_SETTINGS = KEYS[3], ARGV[2], 3, 11
-- Of the call that is decided: the id of its ticket, 6 letters, digits, _ or ~; and
-- the mode, of an admission: call, noprobe, prober; of a ticket: call, model or
-- parent, the level that it probes.
local id, mode

local GRANTED, REJECTED, NOT_DUE, COUNTED, IGNORED = 1, 2, 3, 4, 5
local NO_SCOPE, MODEL, PARENT = 0, 1, 2
local HISTORY, NEVER, TICKET = 10, 253402300799000, 6

local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local FIELDS = {'state', 'reason', 'ring', 'seen', 'leases', 'wants', 'probed', 'hold', 'outputs', -- texts
  'epoch', 'open_until', 'cooldown', 'good', 'bad', 'void', 'task_next', 'wanted', 'not_before'} -- numbers
local TEXTS = 9

local function text(n) return string.format('%d', n) end

-- level reads one of the two breakers. A record with a number that is none, which
-- no script wrote, is taken for lost.
local function level(scope)
  local at = scope == MODEL and SETTINGS or PARENT_SETTINGS
  local l = {scope = scope, key = KEYS[scope], stored = {},
    member = ARGV[at], ttl = tonumber(ARGV[at + 1]),
    max_cooldown = tonumber(ARGV[at + 2]), probe_lease = tonumber(ARGV[at + 3]), wanted_for = tonumber(ARGV[at + 4]),
    probes = tonumber(ARGV[at + 5]), need = tonumber(ARGV[at + 6]), task = ARGV[at + 7] == '1'}
  l.round = math.max(l.probes, l.need)
  local values = redis.call('HMGET', l.key, unpack(FIELDS))
  for i, f in ipairs(FIELDS) do
    if i <= TEXTS then
      l[f] = values[i] or ''
    else
      l[f] = tonumber(values[i] or 0)
      if not l[f] then
        redis.call('DEL', l.key)
        return level(scope)
      end
    end
    l.stored[f] = l[f]
  end
  return l
end

local function closed(l) return l.state ~= 'open' and l.state ~= 'half_open' end

-- leases returns how many there are, and when the first and the last one ends.
local function leases(l)
  local n, first, last = 0, 0, 0
  for till in string.gmatch(l.leases, ':(%d+),') do
    till = tonumber(till)
    n = n + 1
    if n == 1 or till < first then first = till end
    last = math.max(last, till)
  end
  return n, first, last
end

local function ended(l) return l.good + l.bad + l.void end

local function free(l)
  local out = leases(l)
  return out < l.probes and ended(l) + out < l.round
end

local function due_at(l)
  if l.state == 'open' then return l.open_until end
  local n, first = leases(l)
  if free(l) or n == 0 then return 0 end
  return first
end

local function held(l)
  return string.match(l.hold, '^(%S+) (%d+) (%d+)')
end

-- keep writes what changed, and has the record live as long as it means something.
local function keep(l)
  local args = {}
  for i, f in ipairs(FIELDS) do
    if l[f] ~= l.stored[f] then
      args[#args + 1] = f
      args[#args + 1] = i <= TEXTS and l[f] or text(l[f])
    end
  end
  if #args == 0 then return false end
  redis.call('HSET', l.key, unpack(args))
  local hold, _, till = held(l)
  if hold and till == '0' then
    redis.call('PERSIST', l.key)
  elseif hold then
    redis.call('PEXPIRE', l.key, text(math.max(tonumber(till) - now, 0) + l.ttl))
  else
    redis.call('PEXPIRE', l.key, text(l.ttl))
  end
  return true
end

-- save keeps the breaker, and the due set true to it.
local function save(l)
  if not keep(l) then return end
  if l.wanted > 0 then
    redis.call('ZADD', due, text(due_at(l)), l.member)
    redis.call('PEXPIRE', due, text(l.ttl))
  elseif l.stored.wanted ~= 0 or l.stored.epoch == 0 then -- of a lost record, too
    redis.call('ZREM', due, l.member)
  end
end

-- settle ends what time ended, and cuts times down to what the settings could
-- have made of now.
local function settle(l)
  local hold, _, till = held(l)
  if hold and till ~= '0' and now >= tonumber(till) then l.hold, hold = '', nil end
  if closed(l) then return end
  if hold ~= 'open' then l.open_until = math.min(l.open_until, now + l.max_cooldown) end
  l.not_before = math.min(l.not_before, now + l.max_cooldown)
  l.wanted = math.min(l.wanted, now + l.wanted_for)
  if l.wanted <= now then l.wanted = 0 end
  local wants = ''
  for ms, m in string.gmatch(l.wants, '(%d+) ([^\n]*)\n') do
    ms = math.min(tonumber(ms), now + l.wanted_for)
    if ms > now then wants = wants .. text(ms) .. ' ' .. m .. '\n' end
  end
  l.wants = wants
  if l.state == 'open' then return end
  local left = ''
  for ticket, ms in string.gmatch(l.leases, '([^:]+):(%d+),') do
    ms = math.min(tonumber(ms), now + l.probe_lease)
    if ms > now then left = left .. ticket .. ':' .. text(ms) .. ',' end
  end
  l.leases = left
  if left == '' and ended(l) >= l.round then l.good, l.bad, l.void = 0, 0, 0 end
end

local function begin(l)
  if l.epoch == 0 then l.state, l.epoch = 'closed', math.max(now, 1) end
end

-- change moves the breaker to another state and notes it for the reply.
local function change(l, to, reason)
  local from = l.state
  l.state = to
  l.epoch = l.epoch + 1
  l.seen, l.leases, l.not_before = '', '', 0
  l.good, l.bad, l.void = 0, 0, 0
  local lines = text(now) .. ' ' .. from .. ' ' .. to .. ' ' .. reason .. '\n'
  local n = 1
  for line in string.gmatch(redis.call('HGET', l.key, 'history') or '', '[^\n]*\n') do
    if n == HISTORY then break end
    lines = lines .. line
    n = n + 1
  end
  redis.call('HSET', l.key, 'history', lines)
  l.change = {from, to, reason}
end

local function open(l, length, reason)
  l.reason, l.cooldown = reason, length
  l.open_until = math.max(now + length, l.not_before)
  change(l, 'open', reason)
end

local function close(l, reason)
  l.ring, l.reason, l.wants = '', '', ''
  l.open_until, l.cooldown, l.wanted, l.task_next = 0, 0, 0, 0
  change(l, 'closed', reason)
end

-- An answer is {code, now, epoch, parent's epoch, lease, until, retry_after,
-- scope, state, reason} and of both levels, the parent last, the from, to and
-- reason of a transition, "" where there was none.
local function reply(code, r, m, p)
  local a, b = m and m.change or {}, p and p.change or {}
  return {code, now, r.epoch or 0, r.parent_epoch or 0, r.lease or 0, r.till or 0, r.retry_after or 0,
    r.scope or NO_SCOPE, r.state or '', r.reason or '',
    a[1] or '', a[2] or '', a[3] or '', b[1] or '', b[2] or '', b[3] or ''}
end
