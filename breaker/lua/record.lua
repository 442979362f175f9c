-- One breaker as a hash; the other scripts are appended to this file. It must
-- agree with record.go and step.go, reply for reply and field for field.
--
-- KEYS[1] breaker  hash: state, epoch, reason, open_until, cooldown, lease_id,
--                  lease_until, wanted, not_before (see Record), and
--                  ring     "<ms>+" a success, "<ms>-" a failure, oldest first
--                  seen     the tickets counted last, 16 hex digits and "," each
--                  history  "<ms> <from> <to> <reason>\n" each, newest first
-- KEYS[2] due      zset of the provider: wanted breakers that are not closed,
--                  by the time at which a probe may begin
-- ARGV[1] now         ms; "" takes the server's clock
-- ARGV[2] id          of the ticket, 16 hex digits
-- ARGV[3] probe       "1" for the ticket of a probe
-- ARGV[4] member      of the due set
-- ARGV[5] ttl         ms, garbage collection only
-- ARGV[6] max_cooldown, ARGV[7] probe_lease, ARGV[8] wanted_for  ms
local breaker, due = KEYS[1], KEYS[2]
local id, probe, member, ttl = ARGV[2], ARGV[3] == '1', ARGV[4], ARGV[5]
local max_cooldown, probe_lease, wanted_for = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local GRANTED, REJECTED, NOT_DUE, COUNTED, IGNORED = 1, 2, 3, 4, 5
local HISTORY = 10

local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local TEXTS = {'state', 'reason', 'lease_id', 'ring', 'seen'}
local NUMBERS = {'epoch', 'open_until', 'cooldown', 'lease_until', 'wanted', 'not_before'}

local rec, stored = {}, {}

local function text(n) return string.format('%.0f', n) end

local function load()
  local t = redis.call('HMGET', breaker, unpack(TEXTS))
  for i, f in ipairs(TEXTS) do
    stored[f] = t[i] or ''
    rec[f] = stored[f]
  end
  local n = redis.call('HMGET', breaker, unpack(NUMBERS))
  for i, f in ipairs(NUMBERS) do
    stored[f] = n[i] or '0'
    rec[f] = tonumber(stored[f])
  end
end

local function closed() return rec.state ~= 'open' and rec.state ~= 'half_open' end

local function due_at()
  if rec.state == 'open' then return rec.open_until end
  if rec.lease_id ~= '' then return rec.lease_until end
  return 0
end

-- save writes what changed and keeps the due set true to it.
local function save()
  local args = {}
  for _, f in ipairs(TEXTS) do
    if rec[f] ~= stored[f] then
      args[#args + 1] = f
      args[#args + 1] = rec[f]
    end
  end
  for _, f in ipairs(NUMBERS) do
    local v = text(rec[f])
    if v ~= stored[f] then
      args[#args + 1] = f
      args[#args + 1] = v
    end
  end
  if #args == 0 then return end
  redis.call('HSET', breaker, unpack(args))
  redis.call('PEXPIRE', breaker, ttl)
  if rec.wanted > 0 then
    redis.call('ZADD', due, text(due_at()), member)
    redis.call('PEXPIRE', due, ttl)
  elseif stored.wanted ~= '0' or stored.epoch == '0' then -- of a lost record, too
    redis.call('ZREM', due, member)
  end
end

-- settle ends a lapsed lease, and cuts times down to what the settings could
-- have made of now.
local function settle()
  if closed() then return end
  rec.open_until = math.min(rec.open_until, now + max_cooldown)
  rec.wanted = math.min(rec.wanted, now + wanted_for)
  if rec.wanted <= now then rec.wanted = 0 end
  if rec.lease_id == '' then return end
  rec.lease_until = math.min(rec.lease_until, now + probe_lease)
  if now >= rec.lease_until then
    rec.lease_id, rec.lease_until = '', 0
  end
end

-- change moves the breaker to another state and returns what to reply of it.
local function change(to, reason)
  local from = rec.state
  rec.state = to
  rec.epoch = rec.epoch + 1
  rec.seen = ''
  rec.not_before = 0
  local lines = text(now) .. ' ' .. from .. ' ' .. to .. ' ' .. reason .. '\n'
  local n = 1
  for line in string.gmatch(redis.call('HGET', breaker, 'history') or '', '[^\n]*\n') do
    if n == HISTORY then break end
    lines = lines .. line
    n = n + 1
  end
  redis.call('HSET', breaker, 'history', lines)
  return {from, to, reason}
end

-- A reply is {code, now, epoch, lease, until, retry_after, state, reason} and,
-- if there was a transition, its from, to and reason.
local function reply(code, r)
  local c = r.change or {}
  return {code, now, r.epoch or 0, r.lease or 0, r.till or 0, r.retry_after or 0,
    r.state or '', r.reason or '', c[1] or '', c[2] or '', c[3] or ''}
end
