-- Put before the scripts of calls, which take several, one after another; they agree
-- with guard_step.go, answer for answer and field for field.
--
-- KEYS[1]  the producer's hour     KEYS[2]  its lines with places, zset line -> order
-- KEYS[3]  when they are due, hash line -> ms
-- KEYS[4], KEYS[5], KEYS[6]  the same of all producers together
-- KEYS[7]  calls that are not settled, hash ticket -> "minute at usd own batch", and
--          @swept, the minute in which old ones were last forgotten
-- KEYS[8]  what the batch has of its own
-- KEYS[9]  producers, zset name -> ms of their last new minute
-- ARGV[1]  now (ms or '')       ARGV[2] minutes of a window   ARGV[3] ttl (ms)
-- The calls' own arguments follow: first the ticket and usd (nano). Returns a list
-- with an answer to each call.
--
-- An hour is a hash: c and u (sums of calls and usd), first and last (minutes),
-- c<minute> and u<minute>, seq (places ever given), opened (ms), dear (price of
-- the last refusal since), released (ms),
-- released_by. A batch's own: allowance, granted, granted_by, granted_at, budget,
-- spent, reserved.
local HOUR, WAITS, DUES = KEYS[1], KEYS[2], KEYS[3]
local ALL_HOUR, ALL_WAITS, ALL_DUES = KEYS[4], KEYS[5], KEYS[6]
local HELD, PURSE, PRODUCERS = KEYS[7], KEYS[8], KEYS[9]
local SPAN, TTL = tonumber(ARGV[2]), ARGV[3]
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function text(n) return string.format('%d', n) end

-- hour reads an hour with what it has in a minute (at least its last one).
local function hour(key, minute)
  local m = text(minute)
  local v = redis.call('HMGET', key, 'c', 'u', 'first', 'last', 'opened', 'c' .. m, 'u' .. m, 'dear', 'released')
  return {key = key, c = tonumber(v[1] or '0'), u = tonumber(v[2] or '0'), first = tonumber(v[3] or ''), last = tonumber(v[4] or ''),
    opened = tonumber(v[5] or '0'), at = minute, cm = tonumber(v[6] or ''), um = tonumber(v[7] or '0'), dear = tonumber(v[8] or '0'),
    released = tonumber(v[9] or '0')}
end

-- flush writes what was counted in an hour, so that others can read it.
local function flush(w)
  if not w.counted then return end
  local m = text(w.at)
  redis.call('HSET', w.key, 'c', text(w.c), 'u', text(w.u), 'c' .. m, text(w.cm), 'u' .. m, text(w.um))
  if w.fresh then
    redis.call('HSET', w.key, 'first', text(w.first), 'last', text(w.last))
    redis.call('PEXPIRE', w.key, TTL)
  end
  w.counted, w.fresh = false, false
end

-- each calls f with every minute of an hour from first to last that it has, until f says true.
local function each(w, last, f)
  if not w.first then return end
  local fields = {}
  for m = w.first, last do
    fields[#fields + 1] = 'c' .. text(m)
    fields[#fields + 1] = 'u' .. text(m)
  end
  if #fields == 0 then return end
  local v = redis.call('HMGET', w.key, unpack(fields))
  for i = 1, #v, 2 do
    if v[i] and f(w.first + (i - 1) / 2, tonumber(v[i]), tonumber(v[i + 1] or '0')) then return end
  end
end

-- drop takes the minutes up to last out of the hour.
local function drop(w, last)
  local gone = {}
  each(w, last, function(m, c, u)
    w.c, w.u = w.c - c, w.u - u
    gone[#gone + 1] = 'c' .. text(m)
    gone[#gone + 1] = 'u' .. text(m)
  end)
  if #gone > 0 then redis.call('HDEL', w.key, unpack(gone)) end
  if last >= w.last then
    w.first, w.last = nil, nil
    redis.call('HDEL', w.key, 'first', 'last')
    redis.call('HSET', w.key, 'c', '0', 'u', '0')
  else
    w.first = last + 1
    redis.call('HSET', w.key, 'first', text(w.first), 'c', text(w.c), 'u', text(w.u))
  end
end

-- tidy drops what no longer counts and returns the minute that does now.
local function tidy(w)
  local minute = math.floor(now / 60000)
  if w.last and w.last > minute + SPAN then
    drop(w, w.last)
    w.c, w.u = 0, 0
  elseif w.last then
    minute = math.max(minute, w.last)
  end
  if w.last and w.first < minute - SPAN then drop(w, math.min(minute - SPAN - 1, w.last)) end
  return minute
end

-- at has an hour know what it has in another minute.
local function at(w, minute)
  if minute == w.at then return end
  flush(w)
  local m = text(minute)
  local v = redis.call('HMGET', w.key, 'c' .. m, 'u' .. m)
  w.at, w.cm, w.um = minute, tonumber(v[1] or ''), tonumber(v[2] or '0')
end

-- add counts in a minute.
local function add(w, minute, calls, cost)
  at(w, minute)
  w.c, w.u, w.um, w.counted = w.c + calls, w.u + cost, w.um + cost, true
  if w.cm then
    w.cm = w.cm + calls
    return
  end
  w.cm, w.fresh = calls, true
  w.first, w.last = math.min(w.first or minute, minute), math.max(w.last or minute, minute)
end

-- correct is add for the minute of a call that is not settled, which may be gone:
-- nothing falls below zero, and an hour that a person released since is another count.
local function correct(w, h, calls, cost)
  at(w, h.minute)
  if w.cm and h.at > w.released then add(w, w.at, math.max(calls, -w.cm), math.max(cost, -w.um)) end
end

-- held_of reads a call that is not settled.
local function held_of(v)
  if not v then return nil end
  local minute, at, cost, own, batch = string.match(v, '^(%d+) (%d+) (%d+) (%d) (.*)$')
  return {minute = tonumber(minute), at = tonumber(at), usd = tonumber(cost), own = own == '1', batch = batch}
end

-- spend books a call that was reserved with a batch's own.
local function spend(key, h, cost)
  if redis.call('EXISTS', key) == 0 then return end
  local v = redis.call('HMGET', key, 'reserved', 'spent')
  redis.call('HSET', key, 'reserved', text(math.max(tonumber(v[1] or '0') - h.usd, 0)), 'spent', text(tonumber(v[2] or '0') + cost))
end

-- held_all reads the calls of such tickets, in turn, and when old ones were last
-- forgotten.
local function held_all(from, width)
  local fields, held = {'@swept'}, {}
  for n = from, #ARGV, width do fields[#fields + 1] = ARGV[n] end
  local v = redis.call('HMGET', HELD, unpack(fields))
  for n = 2, #fields do held[fields[n]] = v[n] end
  return held, v[1]
end
