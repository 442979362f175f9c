-- Puts tasks on a queue, one after another, each as asynq's own script does.
-- KEYS[1] pending   ARGV[1] what the keys of tasks begin with
-- From ARGV[2] on, of each: ID, message, now (Unix ns)
-- Answers each with 1, or 0 where there is such a task already.
local pending, prefix, FIRST, WIDTH = KEYS[1], ARGV[1], 2, 3
local keys, known, answers, fresh = {}, {}, {}, {}
for arg = FIRST, #ARGV, WIDTH do keys[#keys + 1] = prefix .. ARGV[arg] end
local all_new = redis.call('EXISTS', unpack(keys)) == 0 -- as usual
for arg = FIRST, #ARGV, WIDTH do
  local id, msg, now = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]
  local key, is = prefix .. id, 0
  if not known[id] and (all_new or redis.call('EXISTS', key) == 0) then
    known[id] = true
    redis.call('HSET', key, 'msg', msg, 'state', 'pending', 'pending_since', now)
    fresh[#fresh + 1], is = id, 1
  end
  answers[#answers + 1] = is
end
if #fresh > 0 then redis.call('LPUSH', pending, unpack(fresh)) end
return answers
