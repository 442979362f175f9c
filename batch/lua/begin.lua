-- Takes leases on lines, one after another, or says why not.
-- ARGV: now (ms or ''), lease (ms), crashes allowed, the description that is known,
--       then of each call: line, generation, token, have (the digest of the content
--       whose chunk with the line is known; '': it is to be sent; '-': it is not)
-- Answers each with a code and now (ms): 1 granted, with description ('': the one
-- that is known), chunk, class, crashes, progress, the lines outstanding, the
-- compressed lines of the chunk or '', and the deadline (ms); 2 over; 3 held by
-- another, with the ms; 4 cancelled; 5 deadline passed; 6 lost
local now, ms, allowed, known = now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local FIRST, WIDTH = 5, 4
local now_text, till = num(now), num(now + ms)
local v, left, deadline -- of meta; nil: to be read again

local function read_meta()
  v = redis.call('HMGET', meta, 'committed', 'cancelled_at', 'deadline', 'd',
    'total', 'succeeded', 'failed', 'expired', 'cancelled', 'digest')
  if not v[1] then return end
  deadline = tonumber(v[3])
  left = num(v[5] - (v[6] or 0) - (v[7] or 0) - (v[8] or 0) - (v[9] or 0))
end

local function granted(chunk, class, have, crashes, body)
  local lines = have ~= '-' and have ~= v[10] and redis.call('HGET', chunks, chunk) or ''
  return {1, now_text, v[4] ~= known and v[4] or '', chunk, class, crashes, body, left, lines, v[3]}
end

-- begin takes a lease on a line in any state.
local function begin(line, gen, token, have)
  local entry = entry_of(line)
  if not entry or entry.gen ~= gen then return {2, now_text} end

  local holder, expires, first = lease_of(line)
  if holder ~= token and expires > now then return {3, now_text, num(expires - now)} end
  -- Of a line that nobody has begun, nothing is kept; a retry keeps the marks.
  local bare = first or holder == '' and gen == 0
  local crashes = bare and 0 or tonumber(redis.call('HGET', crash, line) or '0')
  local list = bare and not first and {} or marks_of(line, holder, first)
  local m = find_mark(list, token)
  if m and not (holder == token and expires > 0) then return {2, now_text} end -- a late message of an attempt that is over
  if holder ~= token and expires > 0 then
    crashes = redis.call('HINCRBY', crash, line, 1)
  end

  local stored = progress_of(line, bare)
  local function over(outcome, code, reply)
    keep_mark(line, holder, first)
    end_line(line, gen, entry.class, outcome, '-', code, stored.body, now, bare and crashes == 0)
    finish_batch(now)
    v = nil
    return {reply, now_text}
  end
  if v[2] then return over('c', CODES.c, 4) end
  if deadline > 0 and deadline <= now then return over('x', CODES.x, 5) end
  if crashes >= allowed then return over('f', 'task_lost', 6) end

  local only = bare and #list == (m and 1 or 0)
  hold(line, token, now + ms, only)
  if not only then
    clear_wait(line, entry.class)
    if not m then
      list[#list + 1] = {token = token, calls = stored.calls, cost = stored.cost, ended = false}
      save_marks(line, list)
    end
  end
  return granted(entry.chunk, entry.class, have, num(crashes), stored.body)
end

local outs, leases = lines_of(FIRST, WIDTH)
local held = {} -- leases to be written, line and value

-- quick takes the lease on a line that nobody has begun, the usual case; nil: it is
-- another. Who comes for the line again in this script finds it begun.
local function quick(line, gen, token, have)
  local class, chunk = string.match(outs[line] or '', '^0 (%d+) %d+ (%d+)$')
  if not class or gen ~= 0 or leases[line] then return end
  if v[2] or deadline > 0 and deadline <= now then return end
  held[#held + 1], held[#held + 2] = line, till .. ' ' .. token .. ' first'
  outs[line] = nil
  return granted(chunk, class, have, '0', '')
end

local function flush()
  if #held > 0 then redis.call('HSET', lease, unpack(held)) end
  held = {}
end

local answers = {}
for arg = FIRST, #ARGV, WIDTH do
  local line, gen, token, have = ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 2], ARGV[arg + 3]
  if not v then read_meta() end
  local answer = {2, now_text}
  if v[1] then
    answer = quick(line, gen, token, have)
    if not answer then
      flush()
      answer = begin(line, gen, token, have)
      outs[line] = nil
    end
  end
  answers[#answers + 1] = answer
end
flush()
return answers
