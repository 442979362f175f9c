-- Corrects calls' estimates, or gives back calls that were not sent. Follows
-- guard_lib.lua.
-- From ARGV[4] on, of each call: ticket, usd and 1: it was not sent
-- Its answer: 1 where the ticket was known, else 0
local FIRST, WIDTH = 4, 3
local held = held_all(FIRST, WIDTH)
local p, all -- the hours, read for the first call that changes them
local purse  -- what the batch has of its own, likewise; false: nothing
local gone, answers = {}, {}

-- book books a call with what its batch has of its own.
local function book(h, usd, unsent)
  if purse == nil then
    local v = redis.call('HMGET', PURSE, 'reserved', 'spent')
    purse = redis.call('EXISTS', PURSE) == 1 and {reserved = tonumber(v[1] or '0'), spent = tonumber(v[2] or '0'), back = 0}
  end
  if not purse then return end
  purse.reserved, purse.spent = math.max(purse.reserved - h.usd, 0), purse.spent + usd
  if unsent and h.own then purse.back = purse.back + 1 end
end

local function settle(ticket, usd, unsent)
  local h = held_of(held[ticket])
  if not h then return 0 end
  held[ticket], gone[#gone + 1] = nil, ticket
  local calls, calls_all = 0, 0
  if unsent then
    usd = 0
    if not h.own then calls = -1 end
    calls_all = -1
  end
  if unsent or usd ~= h.usd then
    if not p then p, all = hour(HOUR, h.minute), hour(ALL_HOUR, h.minute) end
    correct(p, h, calls, usd - h.usd)
    correct(all, h, calls_all, usd - h.usd)
  end
  if h.batch ~= '' then book(h, usd, unsent) end
  return 1
end

for arg = FIRST, #ARGV, WIDTH do
  answers[#answers + 1] = settle(ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 2] == '1')
end
if #gone > 0 then redis.call('HDEL', HELD, unpack(gone)) end
if p then
  flush(p)
  flush(all)
end
if purse then
  redis.call('HSET', PURSE, 'reserved', text(purse.reserved), 'spent', text(purse.spent))
  if purse.back > 0 then redis.call('HINCRBY', PURSE, 'allowance', purse.back) end
end
return answers
