-- Admits a task's call (probe "0") or a prober (probe "1"). Follows record.lua,
-- which names KEYS and ARGV.
-- Replies GRANTED, REJECTED, or, to a prober, NOT_DUE.

local function reject()
  local r = {state = rec.state, reason = rec.reason}
  if rec.state == 'open' then
    r.till = rec.open_until
    r.retry_after = math.max(rec.open_until - now, 0) + probe_lease
  elseif rec.lease_id ~= '' then
    r.till = rec.lease_until
    r.retry_after = rec.lease_until - now
  else
    r.till = now
    r.retry_after = probe_lease
  end
  return reply(REJECTED, r)
end

local function admit()
  if not closed() then
    if rec.wanted < now + wanted_for / 2 then rec.wanted = now + wanted_for end
    return reject()
  end
  if rec.epoch == 0 then
    rec.state, rec.epoch = 'closed', math.max(now, 1)
  end
  return reply(GRANTED, {epoch = rec.epoch})
end

local function admit_probe()
  if rec.lease_id == id then
    return reply(GRANTED, {epoch = rec.epoch, lease = rec.lease_until - now})
  end
  if rec.lease_id ~= '' then return reject() end
  if rec.wanted <= now or due_at() > now then return reply(NOT_DUE, {}) end
  local c
  if rec.state == 'open' then c = change('half_open', 'probe') end
  rec.lease_id, rec.lease_until = id, now + probe_lease
  return reply(GRANTED, {epoch = rec.epoch, lease = probe_lease, change = c})
end

-- Closed is the usual case: two fields to read, nothing to write, and now and
-- then a longer life for a breaker whose calls all take their time to report.
local usual = redis.call('HMGET', breaker, 'state', 'epoch')
if usual[1] == 'closed' and not probe then
  if redis.call('PTTL', breaker) < ttl / 2 then redis.call('PEXPIRE', breaker, ttl) end
  return reply(GRANTED, {epoch = tonumber(usual[2])})
end

load()
settle()
local answer
if probe then answer = admit_probe() else answer = admit() end
save()
return answer
