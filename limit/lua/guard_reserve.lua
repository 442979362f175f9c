-- Counts calls, or says what each is over. Follows guard_lib.lua.
-- ARGV[4]  the producer's name
-- ARGV[5] and ARGV[6]  calls and usd of the producer's limit, 0: none
-- ARGV[7] and ARGV[8]  those of all   ARGV[9] batch
-- ARGV[10] how long a place is kept after its time (ms)   ARGV[11] wait for a reserved budget (ms)
-- From ARGV[12] on, of each call: ticket, usd, line ('': nobody's) and 1: it is
-- counted, never refused
-- Its answer: 0, let in and nothing changed; or the scope (0 let in, 1 producer, 2
-- global, 3 budget), wait (ms), then of the producer and of all: 0, 1 opened or 2
-- closed, and until when (ms)
local name, batch = ARGV[4], ARGV[9]
local limit = {c = tonumber(ARGV[5]), u = tonumber(ARGV[6])}
local limit_all = {c = tonumber(ARGV[7]), u = tonumber(ARGV[8])}
local GRACE, BUDGET_WAIT, FIRST, WIDTH = tonumber(ARGV[10]), tonumber(ARGV[11]), 12, 4

local held, swept = held_all(FIRST, WIDTH)
local p, all, this_minute -- the hours, and the minute in which calls count
-- The purse as it is now, and what of it is not written.
local has_purse, allowance, budget, spent, reserved, taken, moved
local counted = {} -- tickets and what HELD is to hold of them
local ticket, usd, line, always

-- begin reads the hours, for the first call that is not known.
local function begin()
  this_minute = math.floor(now / 60000)
  p, all = hour(HOUR, this_minute), hour(ALL_HOUR, this_minute)
  p.waits, p.dues, all.waits, all.dues = WAITS, DUES, ALL_WAITS, ALL_DUES
end

-- overdue drops the first places that nobody came for and counts the rest, unless
-- that is known.
local function overdue(w)
  if w.n == 0 then return end
  w.n = redis.call('ZCARD', w.waits)
  while w.n > 0 do
    local first = redis.call('ZRANGE', w.waits, 0, 0)[1]
    if tonumber(redis.call('HGET', w.dues, first) or '0') + GRACE >= now then return end
    redis.call('ZREM', w.waits, first)
    redis.call('HDEL', w.dues, first)
    w.n = w.n - 1
  end
end

local function read_purse()
  local v = redis.call('HMGET', PURSE, 'allowance', 'budget', 'spent', 'reserved')
  has_purse = batch ~= '' and (v[1] or v[2]) and true or false
  allowance, budget = tonumber(v[1] or '0'), tonumber(v[2] or '0')
  spent, reserved = tonumber(v[3] or '0'), tonumber(v[4] or '0')
  taken, moved = 0, false
end

local function flush_purse()
  if not moved then return end
  redis.call('HSET', PURSE, 'reserved', text(reserved))
  if taken > 0 then redis.call('HINCRBY', PURSE, 'allowance', -taken) end
end

-- sweep forgets, once a minute, calls that nobody will settle.
local function sweep(minute)
  if swept == text(minute) then return end
  swept = text(minute)
  redis.call('HSET', HELD, '@swept', swept)
  redis.call('PEXPIRE', HELD, TTL)
  local list = redis.call('HGETALL', HELD)
  for i = 1, #list, 2 do
    local h = held_of(list[i] ~= '@swept' and list[i + 1])
    if h and h.minute < minute - SPAN then
      redis.call('HDEL', HELD, list[i])
      held[list[i]] = nil
      spend(string.gsub(HELD, 'held$', '') .. 'b:' .. h.batch, h, h.usd)
    end
  end
end

local function rank(w)
  if w.n == 0 or line == '' then return w.n end
  return redis.call('ZRANK', w.waits, line) or w.n
end

local function free(c, u, l, r, cost, of_own)
  if l.c > 0 and not of_own and c + r >= l.c then return false end
  return l.u <= 0 or u + cost * (r + 1) <= l.u or (u <= 0 and r == 0)
end

local function due(w, l, r, cost, of_own)
  local holds, rounds = nil, 0 -- of a window, as if all calls cost the same
  if l.c > 0 and not of_own then holds = l.c end
  if l.u > 0 and cost > 0 then holds = math.min(holds or math.huge, math.max(math.floor(l.u / cost), 1)) end
  if holds then rounds, r = math.floor(r / holds), r % holds end
  local c, u, at = w.c, w.u, now
  if w.last then
    flush(w)
    each(w, w.last, function(m, mc, mu)
      if free(c, u, l, r, cost, of_own) then return true end
      c, u, at = c - mc, u - mu, math.max(now, (m + SPAN + 1) * 60000)
    end)
  end
  return at + rounds * (SPAN + 1) * 60000
end

local function place(w, at)
  if line == '' then return end
  if not redis.call('ZSCORE', w.waits, line) then
    redis.call('ZADD', w.waits, redis.call('HINCRBY', w.key, 'seq', 1), line)
    redis.call('PEXPIRE', w.key, TTL)
  end
  redis.call('HSET', w.dues, line, text(at))
  redis.call('PEXPIRE', w.waits, TTL)
  redis.call('PEXPIRE', w.dues, TTL)
  w.n = nil
end

local function opens(w)
  redis.call('HSET', w.key, 'dear', text(usd))
  w.dear = usd
  if w.opened ~= 0 then return 0 end
  redis.call('HSET', w.key, 'opened', text(now))
  w.opened = now
  return 1
end

-- turn notes, after a call was let in, whether the next one would be.
local function turn(w, l)
  local open = not free(w.c, w.u, l, w.n, w.dear, false) or (l.u > 0 and w.u >= l.u)
  if open == (w.opened ~= 0) then return 0, 0 end
  if not open then
    redis.call('HDEL', w.key, 'opened', 'dear')
    w.opened, w.dear = 0, 0
    return 2, 0
  end
  redis.call('HSET', w.key, 'opened', text(now))
  w.opened = now
  return 1, due(w, l, w.n, math.max(w.dear, 1), false)
end

local function leave(w)
  if w.n > 0 and line ~= '' and redis.call('ZREM', w.waits, line) == 1 then
    redis.call('HDEL', w.dues, line)
    w.n = w.n - 1
  end
end

-- over says what a call is over, and gives its line a place; nil: nothing.
local function over(own)
  if has_purse and budget > 0 then
    if spent + usd > budget then return {3, '0', 0, '0', 0, '0'} end
    if spent + reserved + usd > budget then return {3, text(BUDGET_WAIT), 0, '0', 0, '0'} end
  end
  local r, r_all = rank(p), rank(all)
  local scope, till = 0, now
  local change, till_p, change_all, till_all = 0, 0, 0, 0
  if not free(all.c, all.u, limit_all, r_all, usd, false) then
    scope, till_all = 2, due(all, limit_all, r_all, usd, false)
    place(all, till_all)
    change_all, till = opens(all), math.max(till, till_all)
  end
  if not free(p.c, p.u, limit, r, usd, own) then
    scope, till_p = 1, due(p, limit, r, usd, own)
    place(p, till_p)
    change, till = opens(p), math.max(till, till_p)
  end
  if scope ~= 0 then return {scope, text(math.max(till - now, 1)), change, text(till_p), change_all, text(till_all)} end
end

-- count lets a call in.
local function count(minute, own)
  leave(p)
  leave(all)
  if not p.cm then
    redis.call('ZADD', PRODUCERS, now, name)
    redis.call('ZREMRANGEBYSCORE', PRODUCERS, '-inf', now - 2 * SPAN * 60000)
    redis.call('PEXPIRE', PRODUCERS, TTL)
  end
  add(p, minute, own and 0 or 1, usd)
  add(all, minute, 1, usd)
  if has_purse then
    reserved, moved = reserved + usd, true
    if own then allowance, taken = allowance - 1, taken + 1 end
  end
  held[ticket] = text(minute) .. ' ' .. text(now) .. ' ' .. text(usd) .. ' ' .. (own and '1' or '0') .. ' ' .. batch
  counted[#counted + 1], counted[#counted + 2] = ticket, held[ticket]
  local change, till_p = turn(p, limit)
  local change_all, till_all = turn(all, limit_all)
  if change == 0 and change_all == 0 then return 0 end
  return {0, '0', change, text(till_p), change_all, text(till_all)}
end

local function reserve()
  if held[ticket] then return 0 end
  if not p then begin() end
  local minute = math.max(tidy(p), tidy(all))
  overdue(p)
  overdue(all)
  if has_purse == nil then -- the first one, and it is the same minute for all
    sweep(minute)
    read_purse()
  end
  local own = has_purse and allowance > 0
  return not always and over(own) or count(minute, own and not always)
end

local answers = {}
for arg = FIRST, #ARGV, WIDTH do
  ticket, usd, line, always = ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 2], ARGV[arg + 3] == '1'
  answers[#answers + 1] = reserve()
end
if p then
  flush(p)
  flush(all)
  flush_purse()
end
if #counted > 0 then redis.call('HSET', HELD, unpack(counted)) end
return answers
