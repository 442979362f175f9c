-- Notes what became of a try at telling of a batch's end.
-- ARGV: now (ms or ''), end (ms), number of the try, told (0 1), ms until the next
--       try (0: it is given up), error
-- Returns when the next try is due (ms); 0 none; -1 the try counts no more: the end
-- was told of, another try began, or the batch has another end
local now, over, try, told = now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4] == '1'
local again, err = tonumber(ARGV[5]), ARGV[6]
local v = redis.call('HMGET', meta, 'finished_at', 'notify_end', 'notify_tries', 'notify_told')
if v[1] ~= over or v[2] ~= over or v[4] or not told and v[3] ~= try then return -1 end
if told then
  redis.call('HSET', meta, 'notify_told', num(now))
  redis.call('HDEL', meta, 'notify_next', 'notify_error')
  return 0
end
redis.call('HSET', meta, 'notify_error', err)
if again > 0 then
  redis.call('HSET', meta, 'notify_next', num(now + again))
  return now + again
end
redis.call('HDEL', meta, 'notify_next')
return 0
