-- Admits a call while both levels are closed, the usual case: two fields to read of
-- each level, nothing to write, and now and then a longer life for a breaker whose
-- calls all take their time to report. Stands before record.lua, which names KEYS,
-- ARGV and the reply, so that all of that is only made where it is needed.
--
-- KEYS[1] model, KEYS[2] parent
-- ARGV[3] mode, ARGV[6] and ARGV[14] ttl of the model and of the parent, ms
-- Replies GRANTED, or goes on.
if ARGV[3] ~= 'prober' then
  local m, p = redis.call('HMGET', KEYS[1], 'state', 'epoch'), redis.call('HMGET', KEYS[2], 'state', 'epoch')
  if m[1] == 'closed' and p[1] == 'closed' then
    for i, at in ipairs({6, 14}) do
      local left = redis.call('PTTL', KEYS[i])
      if left >= 0 and left < ARGV[at] / 2 then redis.call('PEXPIRE', KEYS[i], ARGV[at]) end
    end
    local epoch, parent_epoch = tonumber(m[2]), tonumber(p[2])
    if epoch and parent_epoch then return {1, 0, epoch, parent_epoch, 0, 0, 0, 0, '', '', '', '', '', '', '', ''} end
  end
end

