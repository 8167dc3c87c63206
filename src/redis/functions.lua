#!lua name=tvec_durable
-- The operations of tvec's durable timers, as functions on a Redis server. The store replaces an
-- older version of this library, and refuses to work with a newer one. Names of functions hold the
-- version, so a process that knows another one fails and changes nothing.
--
-- A shard is these keys, in this order, all in one hash slot. Functions are given as many of them
-- as they need:
--   due                        zset  id -> deadline in ms since 1970, of timers without an open attempt
--   job                        hash  id -> body
--   begun                      zset  id -> end of the lease in ms, of timers with an open attempt
--   try                        hash  id -> attempt, ended, spent, period, and if an attempt is open also
--                                    deadline, end of the lease, length of the lease.
--                                    No entry: no attempt yet, and no period
--   own                        hash  o: owner, e: epoch, u: until when, l: length of that lease,
--                                    w: how far he has taken, t: time of the last renewal
--   dead, dead:job, dead:try   as due (by deadline), job and try, of timers that had all their attempts
--   damaged                    hash  id -> score and entry of try, of timers that were set aside because
--                                    they cannot be read. Their bodies stay in job
local VERSION = 2
local DUE, JOB, BEGUN, TRY, OWN, DEAD, DEAD_JOB, DEAD_TRY, DAMAGED = 1, 2, 3, 4, 5, 6, 7, 8, 9
local LATEST = 253402300799999
local CLOSED, OPEN, OLD = '<I4I4I4I8', '<I4I4I4I8I8I8I8', '<I4I4I8'
local CLOSED_SIZE, OPEN_SIZE, OLD_SIZE = 20, 44, 16


local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

-- attempt, ended, spent, period; of an open attempt also deadline, end and length of its lease.
-- Nothing if the entry cannot be read.
local function unpack_try(packed)
  if not packed then return 0, 0, 0, 0 end
  if #packed == OPEN_SIZE then
    local attempt, ended, spent, every, due, till, length = struct.unpack(OPEN, packed)
    return attempt, ended, spent, every, due, till, length
  end
  if #packed == CLOSED_SIZE then
    local attempt, ended, spent, every = struct.unpack(CLOSED, packed)
    return attempt, ended, spent, every
  end
  if #packed == OLD_SIZE then
    local attempt, ended, every = struct.unpack(OLD, packed)
    return attempt, ended, attempt - ended, every
  end
end

-- A score as a deadline. Nothing if there is none, or if it is none.
local function deadline_of(score)
  local due = tonumber(score)
  return due and due >= 0 and due <= LATEST and due % 1 == 0 and due or nil
end

-- Whether a lease counts: it is not over, and no further away than its length.
local function holds(till, length, now)
  return till and length and till > now and till - now <= length
end

-- The first beat of a period that lies after now.
local function next_beat(due, every, now)
  local missed = math.floor(math.max(now - due, 0) / every)
  if missed >= math.floor((LATEST - due) / every) then return LATEST end
  return due + (missed + 1) * every
end

-- Byte by byte, as sorted sets order their members: Lua's own comparison follows a locale.
local function is_after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- The order of places: {id, score}.
local function is_before(a, b)
  if a[2] ~= b[2] then return a[2] < b[2] end
  return is_after(b[1], a[1])
end

-- The rank of what comes next after a place of a sorted set.
local function rank_after(key, due, id)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. due)
  if id == '' then return low end
  local high = redis.call('ZCOUNT', key, '-inf', due)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_after(redis.call('ZRANGE', key, middle, middle)[1], id) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- Tells the owner of a shard, if that is somebody else, what was put before the end of what he has
-- taken: the function that does it, or nothing.
local function teller(k, me)
  local owner, till, length, taken = unpack(redis.call('HMGET', k[OWN], 'o', 'u', 'l', 'w'))
  till = tonumber(till)
  if not owner or owner == me or not holds(till, tonumber(length) or till, now_ms()) then return nil end
  taken = tonumber(taken) or LATEST
  return function(id, due)
    if tonumber(due) <= taken then redis.call('PUBLISH', owner, due .. ' ' .. id) end
  end
end

local function bury(k, id)
  redis.call('HDEL', k[DEAD_JOB], id)
  redis.call('HDEL', k[DEAD_TRY], id)
  return redis.call('ZREM', k[DEAD], id)
end

-- Takes a timer that cannot be read out of the way. Its body stays.
local function set_aside(k, id)
  local score = redis.call('ZSCORE', k[DUE], id) or redis.call('ZSCORE', k[BEGUN], id) or ''
  redis.call('HSET', k[DAMAGED], id, score .. ' ' .. (redis.call('HGET', k[TRY], id) or ''))
  redis.call('ZREM', k[DUE], id)
  redis.call('ZREM', k[BEGUN], id)
  redis.call('HDEL', k[TRY], id)
end

-- The highest attempt that may have been given out for an id that lives, is dead or is damaged.
-- Nobody knows that of a damaged one: the seconds since 1970 are more than it can have had.
local function last_attempt(k, id, is_living)
  local packed = is_living and redis.call('HGET', k[TRY], id) or redis.call('HGET', k[DEAD_TRY], id)
  local attempt = redis.call('HEXISTS', k[DAMAGED], id) == 0 and unpack_try(packed)
  return attempt or math.floor(now_ms() / 1000)
end

-- Has a new timer take the place of one that lives, is dead or is damaged. Deliveries of the old one
-- must not end it.
local function replace(k, id, is_living, every)
  local attempt = last_attempt(k, id, is_living) + 1
  redis.call('ZREM', k[BEGUN], id)
  redis.call('HDEL', k[DAMAGED], id)
  bury(k, id)
  redis.call('HSET', k[TRY], id, struct.pack(CLOSED, attempt, attempt, 0, every))
end

-- Whether an attempt is open, for all that can be read.
local function has_begun(packed)
  return packed and #packed ~= CLOSED_SIZE and #packed ~= OLD_SIZE
end

-- All keys. me, 'keep' or 'replace', and id, due, period, body of each
-- -> 0 there already, 1 stored, 2 dead (or damaged), of each
local function put(k, a)
  local keeps, ids, results, jobs, added, seen, n = a[2] == 'keep', {}, {}, {}, {}, {}, 0
  for i = 3, #a, 4 do ids[(i + 1) / 4] = a[i] end
  local due, try, tell = redis.call('ZMSCORE', k[DUE], unpack(ids)), redis.call('HMGET', k[TRY], unpack(ids)), teller(k, a[1])
  local some_dead = redis.call('EXISTS', k[DEAD], k[DAMAGED]) > 0
  for i, id in ipairs(ids) do
    local every = a[4 * i + 1]
    local lives = due[i] or seen[id] or has_begun(try[i])
    local is_dead = some_dead and not lives
      and (redis.call('ZSCORE', k[DEAD], id) or redis.call('HEXISTS', k[DAMAGED], id) == 1)
    results[i] = not (keeps and (lives or is_dead)) and 1 or lives and 0 or 2
    if results[i] == 1 then
      if lives or is_dead then
        replace(k, id, lives, every)
      elseif every ~= '0' then
        redis.call('HSET', k[TRY], id, struct.pack(CLOSED, 0, 0, 0, every))
      end
      seen[id] = true
      jobs[n + 1], jobs[n + 2] = id, a[4 * i + 2]
      added[n + 1], added[n + 2] = a[4 * i], id
      n = n + 2
      if tell then tell(id, a[4 * i]) end
    end
  end
  if n > 0 then
    redis.call('HSET', k[JOB], unpack(jobs))
    redis.call('ZADD', k[DUE], unpack(added))
  end
  return results
end

-- All keys. id -> 0 unknown, 1 cancelled, 2 gone, but it had begun, was dead or was damaged
local function cancel(k, a)
  local id = a[1]
  local waited, had_begun = redis.call('ZREM', k[DUE], id), redis.call('ZREM', k[BEGUN], id)
  local was_lost = bury(k, id) + redis.call('HDEL', k[DAMAGED], id)
  redis.call('HDEL', k[JOB], id)
  redis.call('HDEL', k[TRY], id)
  return had_begun == 1 and 2 or waited == 1 and 1 or was_lost > 0 and 2 or 0
end

-- Keys up to try. id, attempt, what of each: '' it is done, 'r' it is returned, or when it comes again
-- -> of each: 0 not the current attempt; else 1 and it is gone, or 2 + when it comes again
local function finish(k, a)
  local ids, results, gone, again, tries, still, over = {}, {}, {}, {}, {}, {}, {}
  local now = now_ms()
  for i = 1, #a, 3 do ids[(i + 2) / 3] = a[i] end
  local try = redis.call('HMGET', k[TRY], unpack(ids))
  for i, id in ipairs(ids) do
    local attempt, ended, spent, every, due, _, length = unpack_try(try[i])
    local what = a[3 * i]
    if not due or over[id] or attempt ~= tonumber(a[3 * i - 1]) then
      results[i] = 0
    elseif what == '' and every == 0 then
      over[id] = true
      gone[#gone + 1] = id
      results[i] = 1
    else
      over[id] = true
      local t, is_returned = #tries, what == 'r'
      tries[t + 1] = id
      if not is_returned then
        due, spent = tonumber(what) or next_beat(due, every, now), 0
      end
      if is_returned and attempt ~= ended + 1 then
        still[#still + 1], still[#still + 2] = due, id
        tries[t + 2] = struct.pack(OPEN, attempt, ended, spent, every, due, due, length)
      else
        again[#again + 1], again[#again + 2] = due, id
        tries[t + 2] = struct.pack(CLOSED, attempt, attempt, spent, every)
      end
      results[i] = 2 + due
    end
  end
  if #tries > 0 then redis.call('HSET', k[TRY], unpack(tries)) end
  if #still > 0 then redis.call('ZADD', k[BEGUN], unpack(still)) end
  for i = 2, #again, 2 do redis.call('ZREM', k[BEGUN], again[i]) end
  if #again > 0 then redis.call('ZADD', k[DUE], unpack(again)) end
  if #gone > 0 then
    redis.call('ZREM', k[BEGUN], unpack(gone))
    redis.call('HDEL', k[TRY], unpack(gone))
    redis.call('HDEL', k[JOB], unpack(gone))
  end
  return results
end

-- Keys up to own. epoch, and id, attempt of each
-- -> false if the shard is another's; else 1 if it was the current attempt, of each
local function spend(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local ids, results, tries = {}, {}, {}
  for i = 2, #a, 2 do ids[i / 2] = a[i] end
  local try = redis.call('HMGET', k[TRY], unpack(ids))
  for i, id in ipairs(ids) do
    local attempt, ended, spent, every, due, till, length = unpack_try(try[i])
    local is_current = due and attempt == tonumber(a[2 * i + 1])
    if is_current then
      local n = #tries
      tries[n + 1] = id
      tries[n + 2] = struct.pack(OPEN, attempt, ended, spent + 1, every, due, till, length)
    end
    results[i] = is_current and 1 or 0
  end
  if #tries > 0 then redis.call('HSET', k[TRY], unpack(tries)) end
  return results
end

-- Moves a timer to the dead. Returns false, and it is damaged, if it has no body.
local function die(k, id, due, attempt, ended, spent, every)
  local body = redis.call('HGET', k[JOB], id)
  if not body then
    set_aside(k, id)
    return false
  end
  redis.call('ZADD', k[DEAD], due, id)
  redis.call('HSET', k[DEAD_JOB], id, body)
  redis.call('HSET', k[DEAD_TRY], id, struct.pack(CLOSED, attempt, ended, spent, every))
  redis.call('ZREM', k[DUE], id)
  redis.call('ZREM', k[BEGUN], id)
  redis.call('HDEL', k[TRY], id)
  redis.call('HDEL', k[JOB], id)
  return true
end

-- A claim answers two values of each id. Of a granted timer: its entry of try, and its body. Else one of
-- these, and when it can be claimed.
local GONE, EARLY, DIED, LATER, BROKEN = '0', '1', '2', '3', '4'

-- Bodies are read a few at a time, so that no more of them are read than are answered, nearly.
local FIRST_BODIES, MOST_BODIES = 8, 32

-- Grants timers, as many as their bodies have room for. Of each: its place in the answer, id, entry of
-- try, end of the lease, and whether an attempt of it was open.
local function grant(k, w, bytes, result)
  local from, count, largest = 1, FIRST_BODIES, 1
  local closed, leases, tries = {}, {}, {}
  while from <= #w.id do
    local to = math.min(from + count, #w.id + 1) - 1
    local bodies = bytes > 0 and redis.call('HMGET', k[JOB], unpack(w.id, from, to))
    for i = from, to do
      local at, id, packed = w.at[i], w.id[i], w.packed[i]
      local body = bodies and bodies[i - from + 1]
      if bytes <= 0 then
        result[at] = LATER
      elseif not body then
        set_aside(k, id)
        result[at] = BROKEN
      else
        result[at], result[at + 1] = packed, body
        bytes, largest = bytes - #body, math.max(largest, #body)
        if not w.is_open[i] then closed[#closed + 1] = id end
        local n = #tries
        leases[n + 1], leases[n + 2] = w.till[i], id
        tries[n + 1], tries[n + 2] = id, packed
      end
    end
    from = to + 1
    count = math.max(1, math.min(MOST_BODIES, math.floor(bytes / largest)))
  end
  if #closed > 0 then redis.call('ZREM', k[DUE], unpack(closed)) end
  if #tries > 0 then
    redis.call('ZADD', k[BEGUN], unpack(leases))
    redis.call('HSET', k[TRY], unpack(tries))
  end
end

-- All keys. epoch, length of the lease, attempts, how far ahead, bytes, and ids
-- -> false if the shard is another's; else the time in us, and an answer of each id
local function claim(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local us = now_us()
  local now, lease, most, ahead = math.floor(us / 1000), tonumber(a[2]), tonumber(a[3]), tonumber(a[4])
  local ids, result, over, n = {unpack(a, 6)}, {us}, {}, 0
  local w = {at = {}, id = {}, packed = {}, till = {}, is_open = {}}
  local try, scores = redis.call('HMGET', k[TRY], unpack(ids)), redis.call('ZMSCORE', k[DUE], unpack(ids))
  for i, id in ipairs(ids) do
    local attempt, ended, spent, every, due, till, length = unpack_try(try[i])
    local is_there, is_open, at = scores[i] or due or not attempt, due, 2 * i
    due = due or deadline_of(scores[i])
    local visible = is_open and math.min(till, now + length) or due
    result[at], result[at + 1] = GONE, 0
    if not is_there or over[id] then
      -- it is gone
    elseif not attempt or not due then
      set_aside(k, id)
      result[at] = BROKEN
    elseif visible > now + ahead then
      result[at], result[at + 1] = EARLY, visible
    elseif most > 0 and spent >= most then
      result[at] = die(k, id, due, attempt, ended, spent, every) and DIED or BROKEN
    else
      n, till = n + 1, math.max(now, visible) + lease
      w.at[n], w.id[n], w.till[n], w.is_open[n] = at, id, till, is_open or false
      w.packed[n] = struct.pack(OPEN, attempt + 1, ended, spent, every, due, math.max(till, 0), math.max(till - now, 0))
    end
    over[id] = true
  end
  grant(k, w, math.max(tonumber(a[5]), 1), result)
  return result
end

-- Places of a sorted set next after the one in a[2], a[3]: id, score of each.
local function places(key, a, till, limit)
  local from, got = rank_after(key, a[2], a[3]), {}
  local count = math.min(limit, redis.call('ZCOUNT', key, '-inf', till) - from)
  if count > 0 then got = redis.call('ZRANGE', key, from, from + count - 1, 'WITHSCORES') end
  return got
end

-- Both of them in order, at most so many.
local function merged(a, b, limit)
  if #b == 0 then return a end
  local all, result = {}, {}
  for _, list in ipairs({a, b}) do
    for i = 1, #list, 2 do all[#all + 1] = {list[i], tonumber(list[i + 1])} end
  end
  table.sort(all, is_before)
  for i = 1, math.min(#all, limit) do result[2 * i - 1], result[2 * i] = all[i][1], all[i][2] end
  return result
end

-- Sets those of these timers aside whose deadlines cannot be read. Whether there were any.
local function set_unreadable_aside(k, got)
  local found = false
  for i = 2, #got, 2 do
    if not deadline_of(got[i]) then
      set_aside(k, got[i - 1])
      found = true
    end
  end
  return found
end

-- All keys. epoch, due and id of a place, until when, limit
-- -> false if the shard is another's; else the time in us, and id and due of each
local function take(k, a)
  local epoch, taken = unpack(redis.call('HMGET', k[OWN], 'e', 'w'))
  if epoch ~= a[1] then return false end
  local limit, due, begun = tonumber(a[5])
  repeat
    due, begun = places(k[DUE], a, a[4], limit), places(k[BEGUN], a, a[4], limit)
  until not set_unreadable_aside(k, due) and not set_unreadable_aside(k, begun)
  local result = merged(due, begun, limit)
  local till = #result == 2 * limit and result[#result] or a[4]
  if tonumber(till) > (tonumber(taken) or 0) then redis.call('HSET', k[OWN], 'w', till) end
  return {now_us(), result}
end

-- Has no lease of a claim count for longer than its length from now.
local function shorten(k, now)
  local ids = redis.call('ZRANGEBYSCORE', k[BEGUN], '(' .. now, '+inf')
  for _, id in ipairs(ids) do
    local attempt, ended, spent, every, due, till, length = unpack_try(redis.call('HGET', k[TRY], id))
    if not due then
      redis.call('ZADD', k[BEGUN], now, id) -- a claim sets it aside
    elseif till - now > length then
      till = math.max(now + length, 0)
      redis.call('ZADD', k[BEGUN], till, id)
      redis.call('HSET', k[TRY], id, struct.pack(OPEN, attempt, ended, spent, every, due, till, length))
    end
  end
end

-- Keys up to own. me, length of the lease -> the time in us, and the epoch: 0 if it is somebody else's
local function own(k, a)
  local us, lease = now_us(), tonumber(a[2])
  local now = math.floor(us / 1000)
  local owner, epoch, till, length, latest = unpack(redis.call('HMGET', k[OWN], 'o', 'e', 'u', 'l', 't'))
  local is_owned = owner and holds(tonumber(till), tonumber(length) or lease, now)
  if is_owned and owner ~= a[1] then return {us, 0} end
  if not is_owned then
    epoch = (tonumber(epoch) or 0) + 1
    redis.call('HSET', k[OWN], 'o', a[1], 'e', epoch, 'w', 0)
  end
  if not is_owned or now < (tonumber(latest) or 0) then shorten(k, now) end
  redis.call('HSET', k[OWN], 'u', now + lease, 'l', lease, 't', now)
  return {us, tonumber(epoch)}
end

-- own. epoch
local function release(k, a)
  if redis.call('HGET', k[1], 'e') == a[1] then redis.call('HSET', k[1], 'u', 0) end
  return 0
end

-- processes: hash, name -> until when, length of the lease. me, length of the lease
-- -> the time in us, and how many there are
local function join(k, a)
  local us = now_us()
  local now = math.floor(us / 1000)
  local all = redis.call('HGETALL', k[1])
  for i = 1, #all, 2 do
    local till, length = all[i + 1]:match('^(%d+) (%d+)$')
    if not holds(tonumber(till), tonumber(length), now) then redis.call('HDEL', k[1], all[i]) end
  end
  redis.call('HSET', k[1], a[1], (now + a[2]) .. ' ' .. a[2])
  return {us, redis.call('HLEN', k[1])}
end

-- Keys up to try, or those of the dead. Ids
-- -> id, deadline, period, attempt, ended, spent, body of each that is there and can be read
local function show(k, ids)
  local result, n = {}, 0
  local try, scores = redis.call('HMGET', k[TRY], unpack(ids)), redis.call('ZMSCORE', k[DUE], unpack(ids))
  for i, id in ipairs(ids) do
    local attempt, ended, spent, every, due = unpack_try(try[i])
    due = due or deadline_of(scores[i])
    local body = attempt and due and redis.call('HGET', k[JOB], id)
    if body then
      result[n + 1], result[n + 2], result[n + 3], result[n + 4] = id, due, every, attempt
      result[n + 5], result[n + 6], result[n + 7] = ended, spent, body
      n = n + 7
    end
  end
  return result
end

-- Adds the places after `after` of timers with an open attempt: all of these are looked at.
local function add_begun(k, after, result)
  local ids, page = redis.call('ZRANGE', k[BEGUN], 0, -1), 1000
  for from = 1, #ids, page do
    local some = {unpack(ids, from, math.min(from + page - 1, #ids))}
    for i, packed in ipairs(redis.call('HMGET', k[TRY], unpack(some))) do
      local _, _, _, _, due = unpack_try(packed)
      local place = {some[i], due}
      if due and is_before(after, place) then
        result[#result + 1] = place
      end
    end
  end
end

-- Keys up to try, or those of the dead. due and id of a place, limit
-- -> id and deadline of those next after it: so many that wait, and so many with an open attempt
local function list(k, a)
  local limit, begun, result, n = tonumber(a[3]), {}, {}, 0
  local waiting = places(k[DUE], {'', a[1], a[2]}, '+inf', limit)
  for i = 1, #waiting, 2 do
    local due = deadline_of(waiting[i + 1])
    if due then
      result[n + 1], result[n + 2] = waiting[i], due
      n = n + 2
    end
  end
  add_begun(k, {a[2], tonumber(a[1])}, begun)
  table.sort(begun, is_before)
  for i = 1, math.min(#begun, limit) do
    result[n + 1], result[n + 2] = begun[i][1], begun[i][2]
    n = n + 2
  end
  return result
end

-- All keys -> how many wait, are dead, and are damaged
local function count(k)
  return {redis.call('ZCARD', k[DUE]) + redis.call('ZCARD', k[BEGUN]), redis.call('ZCARD', k[DEAD]), redis.call('HLEN', k[DAMAGED])}
end

-- All keys. me, id, due -> 0 not dead, or damaged, 1 put back
local function revive(k, a)
  local id, due = a[2], a[3]
  local is_dead, lives = redis.call('ZSCORE', k[DEAD], id), redis.call('HEXISTS', k[JOB], id) == 1
  if not is_dead or lives then return 0 end
  local packed, body = redis.call('HGET', k[DEAD_TRY], id), redis.call('HGET', k[DEAD_JOB], id)
  local attempt, _, _, every = unpack_try(packed)
  bury(k, id)
  if not packed or not attempt or not body then
    redis.call('HSET', k[DAMAGED], id, is_dead .. ' ' .. (packed or ''))
    if body then redis.call('HSET', k[JOB], id, body) end
    return 0
  end
  redis.call('HSET', k[JOB], id, body)
  redis.call('HSET', k[TRY], id, struct.pack(CLOSED, attempt, attempt, 0, every))
  redis.call('ZADD', k[DUE], due, id)
  local tell = teller(k, a[1])
  if tell then tell(id, due) end
  return 1
end

-- meta. shards -> the time in us, the shards that there are, and the version of these timers
local function open(k, a)
  local version, shards = unpack(redis.call('HMGET', k[1], 'version', 'shards'))
  if version and tonumber(version) > VERSION then
    return redis.error_reply('NEWER these timers are of version ' .. version)
  end
  shards, version = shards or a[1], version or VERSION
  redis.call('HSET', k[1], 'version', version, 'shards', shards)
  return {now_us(), tonumber(shards), tonumber(version)}
end

-- Version 1 had what has begun also in `due`, by the end of its lease, and in `begun` by its deadline.
-- It did not note how long a lease was: an hour is believed.
local LONGEST_OLD_LEASE = 3600000

-- Keys up to try, of version 1, or of which a part was upgraded.
local function upgrade(k)
  local now, begun = now_ms(), redis.call('ZRANGE', k[BEGUN], 0, -1, 'WITHSCORES')
  for i = 1, #begun, 2 do
    local id, packed = begun[i], redis.call('HGET', k[TRY], begun[i])
    local till = deadline_of(redis.call('ZSCORE', k[DUE], id))
    local due, attempt, ended, _, every = deadline_of(begun[i + 1]), unpack_try(packed)
    if till and due and attempt and not (packed and #packed == OPEN_SIZE) then
      redis.call('ZREM', k[DUE], id)
      redis.call('ZADD', k[BEGUN], till, id)
      redis.call('HSET', k[TRY], id, struct.pack(OPEN, packed and attempt or 1, ended, 0, every, due, till,
        math.min(math.max(till - now, 0), LONGEST_OLD_LEASE)))
    end
  end
  return 0
end

-- meta, and what was the processes. All shards are of this version now.
local function upgraded(k)
  redis.call('HSET', k[1], 'version', VERSION)
  redis.call('DEL', k[2])
  return 0
end

local function version()
  return VERSION
end

local function register(name, callback, ...)
  redis.register_function({function_name = 'tvec_durable_' .. name, callback = callback, flags = {...}})
end

local function register_version(name, callback, ...)
  register(VERSION .. '_' .. name, callback, ...)
end

-- A server that is out of memory takes no more timers; all else goes on.
register_version('put', put)
register_version('revive', revive)
register_version('cancel', cancel, 'allow-oom')
register_version('finish', finish, 'allow-oom')
register_version('spend', spend, 'allow-oom')
register_version('claim', claim, 'allow-oom')
register_version('take', take, 'allow-oom')
register_version('own', own, 'allow-oom')
register_version('release', release, 'allow-oom')
register_version('join', join, 'allow-oom')
register_version('open', open, 'allow-oom')
register_version('upgrade', upgrade, 'allow-oom')
register_version('upgraded', upgraded, 'allow-oom')
register_version('show', show, 'no-writes')
register_version('list', list, 'no-writes')
register_version('count', count, 'no-writes')
register('version', version, 'no-writes')
