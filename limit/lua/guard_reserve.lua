-- Counts one call, or says what it is over. Follows guard_lib.lua.
-- ARGV[7]  line ('': nobody's)   ARGV[8]  1: counted, never refused
-- ARGV[9] and ARGV[10]   calls and usd of the producer's limit, 0: none
-- ARGV[11] and ARGV[12]  those of all   ARGV[13] batch
-- ARGV[14] how long a place is kept after its time (ms)   ARGV[15] wait for a reserved budget (ms)
-- Returns scope (0 let in, 1 producer, 2 global, 3 budget), wait (ms), then of
-- the producer and of all: 0, 1 opened or 2 closed, and until when (ms)
local line, always, batch = ARGV[7], ARGV[8] == '1', ARGV[13]
local limit = {c = tonumber(ARGV[9]), u = tonumber(ARGV[10])}
local limit_all = {c = tonumber(ARGV[11]), u = tonumber(ARGV[12])}
local GRACE, BUDGET_WAIT = tonumber(ARGV[14]), tonumber(ARGV[15])

local known = redis.call('HMGET', HELD, ticket, '@swept')
if known[1] then return {0, '0', 0, '0', 0, '0'} end

local this_minute = math.floor(now / 60000)
local p, all = hour(HOUR, this_minute), hour(ALL_HOUR, this_minute)
p.waits, p.dues, all.waits, all.dues = WAITS, DUES, ALL_WAITS, ALL_DUES
local minute = math.max(tidy(p), tidy(all))

-- overdue drops the first places that nobody came for and counts the rest.
local function overdue(w)
  w.n = redis.call('ZCARD', w.waits)
  while w.n > 0 do
    local first = redis.call('ZRANGE', w.waits, 0, 0)[1]
    if tonumber(redis.call('HGET', w.dues, first) or '0') + GRACE >= now then return end
    redis.call('ZREM', w.waits, first)
    redis.call('HDEL', w.dues, first)
    w.n = w.n - 1
  end
end
overdue(p)
overdue(all)

if known[2] ~= text(minute) then
  redis.call('HSET', HELD, '@swept', text(minute))
  redis.call('PEXPIRE', HELD, TTL)
  local list = redis.call('HGETALL', HELD)
  for i = 1, #list, 2 do
    local h = held_of(list[i] ~= '@swept' and list[i + 1])
    if h and h.minute < minute - SPAN then
      redis.call('HDEL', HELD, list[i])
      spend(string.gsub(HELD, 'held$', '') .. 'b:' .. h.batch, h, h.usd)
    end
  end
end

local purse = redis.call('HMGET', PURSE, 'allowance', 'budget', 'spent', 'reserved')
local has_purse = batch ~= '' and (purse[1] or purse[2]) and true
local allowance, budget = tonumber(purse[1] or '0'), tonumber(purse[2] or '0')
local spent, reserved = tonumber(purse[3] or '0'), tonumber(purse[4] or '0')
local own = has_purse and allowance > 0

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
end

local function opens(w)
  redis.call('HSET', w.key, 'dear', text(usd))
  if w.opened ~= 0 then return 0 end
  redis.call('HSET', w.key, 'opened', text(now))
  return 1
end

-- turn notes, after a call was let in, whether the next one would be.
local function turn(w, l)
  local open = not free(w.c, w.u, l, w.n, w.dear, false) or (l.u > 0 and w.u >= l.u)
  if open == (w.opened ~= 0) then return 0, 0 end
  if not open then
    redis.call('HDEL', w.key, 'opened', 'dear')
    return 2, 0
  end
  redis.call('HSET', w.key, 'opened', text(now))
  return 1, due(w, l, w.n, math.max(w.dear, 1), false)
end

local function leave(w)
  if w.n > 0 and line ~= '' and redis.call('ZREM', w.waits, line) == 1 then
    redis.call('HDEL', w.dues, line)
    w.n = w.n - 1
  end
end

if not always then
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

own = own and not always
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
  redis.call('HSET', PURSE, 'reserved', text(reserved + usd))
  if own then redis.call('HINCRBY', PURSE, 'allowance', -1) end
end
redis.call('HSET', HELD, ticket, text(minute) .. ' ' .. text(now) .. ' ' .. text(usd) .. ' ' .. (own and '1' or '0') .. ' ' .. batch)
local change, till_p = turn(p, limit)
local change_all, till_all = turn(all, limit_all)
return {0, '0', change, text(till_p), change_all, text(till_all)}
