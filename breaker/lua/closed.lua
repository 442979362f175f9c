-- Admits calls while both levels are closed, the usual case: two fields to read of
-- each level, nothing to write, and now and then a longer life for a breaker whose
-- calls all take their time to report. Stands before record.lua, which names KEYS,
-- ARGV and the reply, so that all of that is only made where it is needed.
--
-- KEYS[1] model, KEYS[2] parent
-- ARGV[4] and ARGV[12] ttl of the model and of the parent, ms
-- From ARGV[19] on, of each call: id and mode
-- Answers each call with both epochs, or goes on.
local probing = false
for arg = 19, #ARGV, 2 do probing = probing or ARGV[arg + 1] == 'prober' end
if not probing then
  local m, p = redis.call('HMGET', KEYS[1], 'state', 'epoch'), redis.call('HMGET', KEYS[2], 'state', 'epoch')
  if m[1] == 'closed' and p[1] == 'closed' then
    for i, at in ipairs({4, 12}) do
      local left = redis.call('PTTL', KEYS[i])
      if left >= 0 and left < ARGV[at] / 2 then redis.call('PEXPIRE', KEYS[i], ARGV[at]) end
    end
    local epoch, parent_epoch = tonumber(m[2]), tonumber(p[2])
    if epoch and parent_epoch then
      local granted, answers = {epoch, parent_epoch}, {}
      for _ = 19, #ARGV, 2 do answers[#answers + 1] = granted end
      return answers
    end
  end
end
