-- Does what an operator wants of one level. Follows record.lua, which names
-- KEYS and the first ARGV.
--
-- ARGV[19] scope     1 the model, 2 the parent
-- ARGV[20] action    open, close, reset
-- ARGV[21] hold_for  ms; 0: for good if open, else no hold
-- ARGV[22] by        who
-- ARGV[23] reason    of the transition
-- ARGV[24] cooldown  ms, the first
-- Answers COUNTED.
local scope, action, hold_for, by, why = tonumber(ARGV[19]), ARGV[20], tonumber(ARGV[21]), ARGV[22], ARGV[23]

local l = level(scope)
settle(l)
begin(l)
local till = 0
if hold_for > 0 then till = now + hold_for end
local hold = text(now) .. ' ' .. text(till) .. ' ' .. by
if action == 'open' then
  open(l, tonumber(ARGV[24]), why)
  l.open_until = till > 0 and till or NEVER
  l.hold = 'open ' .. hold
else
  close(l, why)
  l.hold = action == 'close' and till > 0 and 'closed ' .. hold or ''
end
if action == 'reset' then l.outputs = '' end
save(l)
if scope == MODEL then return reply(COUNTED, {}, l, nil) end
return reply(COUNTED, {}, nil, l)
