-- Put before every other script of this folder but due.lua.
--
-- KEYS[1]  meta: the batch's hash of state and counters. All other keys carry
--          its hash tag and are named after it.
-- ARGV     each script's own; of those that take several calls, one after another,
--          the calls' own come last.
--
-- meta     d, digest, total, deadline (ms, 0: none), priority and budget (nano-
--          dollars) where they were changed, committed, cancelled_at,
--          finished_at, epoch, w:<class> (lines not released), cur:<class>
--          (chunk and line last released), classes, def:<class> (out lines that
--          wait), succeeded failed expired cancelled degraded cached calls
--          deferrals cost wasted (nano-dollars), by:<model> (of succeeded, the
--          lines that it answered), err:<code> (of failed expired cancelled, the
--          lines that ended so; without a code, as '-'), passed (of failed, those that
--          were passed over at the submission and are never retried), why:<reason> (of deferrals,
--          what was waited for); of telling of the end notify_end (the
--          finished_at that the others are about), notify_tries, notify_first and
--          notify_next (ms; none: it is over), notify_told (ms), notify_error; retried
--          (lines taken back, ever)
-- gone     meta, once the batch is deleted: nothing finds it any more
-- index    zset: first line -> "chunk first:count:class first:count:class ..."
-- chunks   hash: chunk -> compressed lines
-- dict     the compressed dictionary that the batch's chunks need, if they need one
-- again:<class>  zset: line -> "line generation chunk" of those that were taken
--          back by a retry and are not released; w:<class> counts them too
-- out      hash: line -> "generation class since chunk"
-- wait     hash: line -> what it waits for, opaque
-- lease    hash: line -> "expires token"; expires 0: given back by that token.
--          "expires token first": nothing is kept of the line but the lease, no
--          wait, prog, crash or marks, and its mark is at 0 calls
-- prog     hash: line -> "calls cost deferrals\n" and the progress, opaque
-- crash    hash: line -> begins that never ended
-- marks    hash: line -> the attempts whose calls may still come in, see book()
-- rec      hash: line -> "outcome generation finished token code\n" and a body:
--          the packed result, or with a code the progress; with invalid_request
--          the message; token '-': no attempt wrote it; code '-': none
-- log      list: lines in finishing order, "line" or, of a line that was retried,
--          "line.generation"; the ends of earlier generations stay in it
-- rate     hash: ten seconds since 1970 -> lines finished in them
local meta = KEYS[1]
local base = string.sub(meta, 1, -5)
local index, chunks, out, wait = base .. 'index', base .. 'chunks', base .. 'out', base .. 'wait'
local lease, prog, crash, marks = base .. 'lease', base .. 'prog', base .. 'crash', base .. 'marks'
local rec, log, rate = base .. 'rec', base .. 'log', base .. 'rate'

local again = base .. 'again:' -- and a class

local COUNTERS = {s = 'succeeded', f = 'failed', x = 'expired', c = 'cancelled'}
-- Codes of the ends that no attempt wrote.
local CODES = {f = 'budget_exhausted', x = 'batch_expired', c = 'batch_cancelled'}
local RATE_BUCKET, RATE_BUCKETS = 10000, 31 -- five minutes and the bucket that is filling
local MARKS = 8 -- attempts of a line that are remembered
local MARKS_ENDED = 4 -- those of them that have ended

local function now_ms(arg)
  if arg ~= '' then return tonumber(arg) end
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- num writes a whole number without an exponent.
local function num(n) return string.format('%d', n) end

local function incr(field, by)
  if by ~= 0 then redis.call('HINCRBY', meta, field, num(by)) end
end

-- answered counts lines by who answered them.
local function answered(model, n)
  if model ~= '' then incr('by:' .. model, n) end
end

local function parse_entry(e)
  local g, c, _, k = string.match(e, '^(%d+) (%d+) (%d+) (%d+)$')
  return {gen = tonumber(g), class = c, chunk = k}
end

-- entry_of returns the generation, class and chunk of a released line, or nil.
local function entry_of(line)
  local e = redis.call('HGET', out, line)
  return e and parse_entry(e) or nil
end

local function parse_lease(l)
  local expires, token, rest = string.match(l, '^(%d+) (%S+)(.*)$')
  return token, tonumber(expires), rest ~= ''
end

-- again_of returns the generation of a line that was retried and is not released,
-- its chunk and its entry, or nil.
local function again_of(line, class)
  local e = redis.call('ZRANGEBYSCORE', again .. class, line, line)[1]
  if not e then return nil end
  local g, k = string.match(e, '^%d+ (%d+) (%d+)$')
  return tonumber(g), tonumber(k), e
end

-- lease_of returns the token and the expiry (ms; 0: given back) of the last lease,
-- and whether it is the first and all that is kept of the line.
local function lease_of(line)
  local l = redis.call('HGET', lease, line)
  if not l then return '', 0, false end
  return parse_lease(l)
end

-- hold writes a lease.
local function hold(line, token, expires, first)
  redis.call('HSET', lease, line, num(expires) .. ' ' .. token .. (first and ' first' or ''))
end

-- lines_of reads what out and lease hold of the lines of all calls, of which the
-- first is at one argument, and each has so many.
local function lines_of(first, width)
  local lines, outs, leases = {}, {}, {}
  for arg = first, #ARGV, width do lines[#lines + 1] = ARGV[arg] end
  local o, l = redis.call('HMGET', out, unpack(lines)), redis.call('HMGET', lease, unpack(lines))
  for i, line in ipairs(lines) do outs[line], leases[line] = o[i], l[i] end
  return outs, leases
end

-- progress_of returns the stored calls, cost, deferrals and progress of a line;
-- under its first lease there is none.
local function progress_of(line, first)
  local p = not first and redis.call('HGET', prog, line)
  if not p then return {calls = 0, cost = 0, deferrals = 0, body = ''} end
  local calls, cost, deferrals = string.match(p, '^(%d+) (%d+) (%d+)\n')
  return {calls = tonumber(calls), cost = tonumber(cost), deferrals = tonumber(deferrals),
    body = string.sub(p, string.find(p, '\n', 1, true) + 1)}
end

-- A mark is what the batch knows of one attempt: the calls and the cost of the
-- line, as that attempt sees it, that are booked in the counters already. While
-- it holds the lease, that is what stands in the stored progress. A token is
-- unique to an attempt, so it says the generation too. Of a line's first lease the
-- mark is not written: most lines need no other.
local function marks_of(line, holder, first)
  if first then return {{token = holder, calls = 0, cost = 0, ended = false}} end
  local list = {}
  local raw = redis.call('HGET', marks, line)
  if raw then
    for t, n, c, e in string.gmatch(raw, '(%S+) (%d+) (%d+) (%d);') do
      list[#list + 1] = {token = t, calls = tonumber(n), cost = tonumber(c), ended = e == '1'}
    end
  end
  return list
end

local function find_mark(list, token)
  for _, m in ipairs(list) do
    if m.token == token then return m end
  end
  return nil
end

-- save_marks keeps the last attempts, of those that ended fewer. The list is in
-- the order of their begins, so that the lease's holder is always kept.
local function save_marks(line, list)
  local ended = 0
  for _, m in ipairs(list) do
    if m.ended then ended = ended + 1 end
  end
  local kept = {}
  for _, m in ipairs(list) do
    if m.ended and ended > MARKS_ENDED then
      ended = ended - 1
    else
      kept[#kept + 1] = m
    end
  end
  local parts = {}
  for i = math.max(1, #kept - MARKS + 1), #kept do
    local m = kept[i]
    parts[#parts + 1] = m.token .. ' ' .. num(m.calls) .. ' ' .. num(m.cost) .. ' ' .. (m.ended and '1' or '0') .. ';'
  end
  if #parts == 0 then
    redis.call('HDEL', marks, line)
  else
    redis.call('HSET', marks, line, table.concat(parts))
  end
end

-- book counts the calls of an attempt that were not counted yet.
local function book(m, calls, cost, wasted)
  if calls <= m.calls then return end
  incr('calls', calls - m.calls)
  incr('cost', cost - m.cost)
  if wasted then incr('wasted', cost - m.cost) end
  m.calls, m.cost = calls, cost
end

-- book_waste books the calls of an attempt that may not write any more.
local function book_waste(line, token, calls, cost, ended)
  local holder, _, first = lease_of(line)
  local list = marks_of(line, holder, first)
  local m = find_mark(list, token)
  if not m then return end
  book(m, calls, cost, true)
  m.ended = m.ended or ended
  save_marks(line, list)
end

-- keep_mark writes the mark of a first lease that ends without its attempt.
local function keep_mark(line, holder, first)
  if first then save_marks(line, marks_of(line, holder, first)) end
end

-- store_progress replaces the line's progress by that of the lease's holder. Of
-- deferrals that are new it counts the reason too, where there is one.
local function store_progress(line, calls, cost, deferrals, body, first, reason)
  local more = deferrals - progress_of(line, first).deferrals
  if more > 0 then incr('deferrals', more) end
  if more > 0 and reason then incr('why:' .. reason, more) end
  redis.call('HSET', prog, line, num(calls) .. ' ' .. num(cost) .. ' ' .. num(deferrals) .. '\n' .. body)
end

local function clear_wait(line, class)
  if redis.call('HDEL', wait, line) == 1 then incr('def:' .. class, -1) end
end

local function count_rate(now, n)
  local bucket = math.floor(now / RATE_BUCKET)
  if redis.call('HINCRBY', rate, num(bucket), n) > n then return end
  for _, b in ipairs(redis.call('HKEYS', rate)) do
    if tonumber(b) <= bucket - RATE_BUCKETS then redis.call('HDEL', rate, b) end
  end
end

-- outstanding is how many lines have no record; nil: there is no such batch.
local function outstanding()
  local v = redis.call('HMGET', meta, 'total', 'succeeded', 'failed', 'expired', 'cancelled')
  if not v[1] then return nil end
  return v[1] - (v[2] or 0) - (v[3] or 0) - (v[4] or 0) - (v[5] or 0)
end

-- finish_batch marks the batch as done when no line is outstanding.
local function finish_batch(now)
  if outstanding() <= 0 then redis.call('HSET', meta, 'finished_at', num(now)) end
end

-- moves_on says whether an end counts in the batch's rate.
local function moves_on(outcome, code)
  return outcome == 's' or outcome == 'f' and code ~= 'budget_exhausted'
end

-- log_entry is how the log names an end of a line, whose generation is a text here.
local function log_entry(line, gen)
  return gen == '0' and line or line .. '.' .. gen
end

local function record(outcome, gen, now, token, code, body)
  return outcome .. ' ' .. gen .. ' ' .. now .. ' ' .. token .. ' ' .. code .. '\n' .. body
end

-- end_line writes the record of a line that has none and forgets its life, of
-- which there is at most a lease where it is bare.
local function end_line(line, gen, class, outcome, token, code, body, now, bare)
  redis.call('HSET', rec, line, record(outcome, num(gen), num(now), token, code, body))
  redis.call('RPUSH', log, log_entry(line, num(gen)))
  incr(COUNTERS[outcome], 1)
  if outcome ~= 's' then incr('err:' .. code, 1) end
  redis.call('HDEL', out, line)
  redis.call('HDEL', lease, line)
  if not bare then
    clear_wait(line, class)
    redis.call('HDEL', prog, line)
    redis.call('HDEL', crash, line)
  end
  if moves_on(outcome, code) then count_rate(now, 1) end
end

-- scan_class returns up to want lines of a class from its cursor on, the cursor
-- behind the chunks that hold none of it, and whether there may be more behind
-- that. Those that were ended where they stood (answer.lua) are passed over. It
-- looks at 64 chunks at most.
local function scan_class(class, want)
  local cur = redis.call('HGET', meta, 'cur:' .. class) or '0 0'
  local chunk, last = string.match(cur, '^(%d+) (%d+)$')
  chunk, last = tonumber(chunk), tonumber(last)
  local got, limit = {}, chunk + 64
  while #got < want and chunk < limit do
    local e = redis.call('ZRANGE', index, chunk, chunk)
    if not e[1] then break end
    for first, count, c in string.gmatch(e[1], '(%d+):(%d+):(%d+)') do
      if c == class then
        for l = math.max(tonumber(first), last + 1), tonumber(first) + tonumber(count) - 1 do
          if #got == want then break end
          if redis.call('HEXISTS', rec, num(l)) == 0 then -- a record itself may be large
            got[#got + 1] = {line = l, class = class, chunk = chunk, gen = 0}
          end
        end
      end
    end
    if #got < want then chunk = chunk + 1 end
  end
  return got, num(chunk) .. ' ' .. num(last), #got == want or chunk == limit
end

-- scan_again returns up to want lines of a class that were retried.
local function scan_again(class, want)
  local got = {}
  for _, e in ipairs(redis.call('ZRANGE', again .. class, 0, want - 1)) do
    local l, g, k = string.match(e, '^(%d+) (%d+) (%d+)$')
    got[#got + 1] = {line = tonumber(l), class = class, chunk = tonumber(k), gen = tonumber(g), entry = e}
  end
  return got
end

local function by_line(a, b) return a.line < b.line end

-- take removes up to n lines from the backlog, those that were retried first,
-- then in file order, at most room[c] of class c (nil: any number). It returns
-- them, and whether there may be more.
local function take(n, room)
  local all, rest, more = {}, {}, false
  for class in string.gmatch(redis.call('HGET', meta, 'classes') or '', '%d+') do
    local want = math.min(n, room[class] or n, tonumber(redis.call('HGET', meta, 'w:' .. class) or '0'))
    if want > 0 then
      local retried = scan_again(class, want)
      for _, t in ipairs(retried) do all[#all + 1] = t end
      if #retried < want then
        local got, cursor, left = scan_class(class, want - #retried)
        if #got == 0 then redis.call('HSET', meta, 'cur:' .. class, cursor) end
        for _, t in ipairs(got) do rest[#rest + 1] = t end
        more = more or left
      end
    end
  end
  table.sort(all, by_line)
  table.sort(rest, by_line)
  for _, t in ipairs(rest) do all[#all + 1] = t end
  for i = #all, n + 1, -1 do all[i] = nil end
  local taken, cursors = {}, {}
  for _, t in ipairs(all) do
    taken[t.class] = (taken[t.class] or 0) + 1
    if t.entry then
      redis.call('ZREM', again .. t.class, t.entry)
    else
      cursors[t.class] = num(t.chunk) .. ' ' .. num(t.line)
    end
  end
  for class, cursor in pairs(cursors) do redis.call('HSET', meta, 'cur:' .. class, cursor) end
  for class, t in pairs(taken) do incr('w:' .. class, -t) end
  return all, more or #all == n
end

-- fence returns whether a keeper's epoch is older than one seen before.
local function fence(epoch)
  local seen = tonumber(redis.call('HGET', meta, 'epoch') or '0')
  if epoch < seen then return true end
  if epoch > seen then redis.call('HSET', meta, 'epoch', num(epoch)) end
  return false
end
