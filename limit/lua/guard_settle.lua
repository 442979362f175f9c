-- Corrects a call's estimate, or gives a call back that was not sent. Follows
-- guard_lib.lua.
-- ARGV[7]  1: it was not sent
-- Returns 1 where the ticket was known, else 0
local unsent = ARGV[7] == '1'
local h = held_of(redis.call('HGET', HELD, ticket))
if not h then return 0 end
redis.call('HDEL', HELD, ticket)
local calls, calls_all = 0, 0
if unsent then
  usd = 0
  if not h.own then calls = -1 end
  calls_all = -1
end
if unsent or usd ~= h.usd then
  correct(hour(HOUR, h.minute), h, calls, usd - h.usd)
  correct(hour(ALL_HOUR, h.minute), h, calls_all, usd - h.usd)
end
if h.batch ~= '' then
  spend(PURSE, h, usd)
  if unsent and h.own and redis.call('EXISTS', PURSE) == 1 then redis.call('HINCRBY', PURSE, 'allowance', 1) end
end
return 1
