#!lua name=tvec_durable
-- What tvec's durable timers ask of a Redis server. The store upgrades an older version of this
-- library, and refuses to work with a newer one.
--
-- A shard is these keys, in this order, all in one hash slot. Functions are given as many of them
-- as they need:
--   due                        zset  id -> when it can be claimed: its deadline, or the end of the
--                                    lease of a claim, in ms since 1970
--   job                        hash  id -> body
--   begun                      zset  id -> deadline, of what has been claimed and is not ended
--   try                        hash  id -> attempt, ended, period; where there is none: 1 if it has
--                                    begun, else 0; 0; 0
--   own                        hash  o: owner, e: epoch, u: until when, w: how far he has taken
--   dead, dead:job, dead:try   as due (by deadline), job and try, of what had all its attempts
local VERSION = 1
local DUE, JOB, BEGUN, TRY, OWN, DEAD, DEAD_JOB, DEAD_TRY = 1, 2, 3, 4, 5, 6, 7, 8
local LATEST = 253402300799999

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

local function pack(attempt, ended, every)
  return struct.pack('<I4I4I8', attempt, ended, every)
end

-- attempt, ended, period
local function unpack_try(packed, has_begun)
  if packed then
    local attempt, ended, every = struct.unpack('<I4I4I8', packed)
    return attempt, ended, every
  end
  return has_begun and 1 or 0, 0, 0
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
  local owner, till, taken = unpack(redis.call('HMGET', k[OWN], 'o', 'u', 'w'))
  if not owner or owner == me or tonumber(till) <= now_ms() then return nil end
  taken = tonumber(taken)
  return function(id, due)
    if tonumber(due) <= taken then redis.call('PUBLISH', owner, due .. ' ' .. id) end
  end
end

-- A new one with the id of one that is there: what is being delivered of the old one must not end it.
local function renew(k, id, every)
  local has_begun = redis.call('ZREM', k[BEGUN], id) == 1
  local attempt = unpack_try(redis.call('HGET', k[TRY], id), has_begun) + 1
  redis.call('HSET', k[TRY], id, pack(attempt, attempt, every))
end

-- Keys up to own. me, 'keep' or 'replace', and id, due, period, body of each
-- -> 1 stored, 0 there already, of each
local function put(k, a)
  local ids, results, jobs, added, seen, n = {}, {}, {}, {}, {}, 0
  for i = 3, #a, 4 do ids[(i + 1) / 4] = a[i] end
  local there, tell = redis.call('ZMSCORE', k[DUE], unpack(ids)), teller(k, a[1])
  for i, id in ipairs(ids) do
    local due, every = a[4 * i], a[4 * i + 1]
    local is_there = there[i] or seen[id]
    results[i] = (is_there and a[2] == 'keep') and 0 or 1
    if results[i] == 1 then
      if is_there then
        renew(k, id, every)
      elseif every ~= '0' then
        redis.call('HSET', k[TRY], id, pack(0, 0, every))
      end
      seen[id] = true
      jobs[n + 1], jobs[n + 2] = id, a[4 * i + 2]
      added[n + 1], added[n + 2] = due, id
      n = n + 2
      if tell then tell(id, due) end
    end
  end
  if n > 0 then
    redis.call('HSET', k[JOB], unpack(jobs))
    redis.call('ZADD', k[DUE], unpack(added))
  end
  return results
end

local function bury(k, id)
  redis.call('ZREM', k[DEAD], id)
  redis.call('HDEL', k[DEAD_JOB], id)
  redis.call('HDEL', k[DEAD_TRY], id)
end

local function remove(k, id)
  redis.call('ZREM', k[DUE], id)
  redis.call('HDEL', k[JOB], id)
  redis.call('HDEL', k[TRY], id)
  return redis.call('ZREM', k[BEGUN], id)
end

-- All keys. id -> 0 unknown, 1 cancelled, 2 gone, but it had begun, or was dead
local function cancel(k, a)
  if redis.call('HEXISTS', k[JOB], a[1]) == 1 then return 1 + remove(k, a[1]) end
  if not redis.call('ZSCORE', k[DEAD], a[1]) then return 0 end
  bury(k, a[1])
  return 2
end

-- Some ids, and all about them: deadlines of those that have begun, and tries.
local function about(k, ids)
  return redis.call('ZMSCORE', k[BEGUN], unpack(ids)), redis.call('HMGET', k[TRY], unpack(ids))
end

-- Keys up to try. id, attempt, when again ('' if done) of each
-- -> of each: 1 if it was the current attempt, and when it comes again (0 if it does not)
local function finish(k, a)
  local ids, results, gone, over, now = {}, {}, {}, {}, now_ms()
  for i = 1, #a, 3 do ids[(i + 2) / 3] = a[i] end
  local begun, try = about(k, ids)
  for i, id in ipairs(ids) do
    local attempt, _, every = unpack_try(try[i], begun[i])
    local is_current = begun[i] and not over[id] and attempt == tonumber(a[3 * i - 1])
    local due = tonumber(a[3 * i]) or 0
    if is_current then
      over[id] = true
      if due == 0 and every > 0 then due = next_beat(tonumber(begun[i]), every, now) end
      if due > 0 then
        redis.call('ZADD', k[DUE], due, id)
        redis.call('ZREM', k[BEGUN], id)
        redis.call('HSET', k[TRY], id, pack(attempt, attempt, every))
      else
        gone[#gone + 1] = id
      end
    end
    results[2 * i - 1], results[2 * i] = is_current and 1 or 0, is_current and due or 0
  end
  if #gone > 0 then
    redis.call('ZREM', k[DUE], unpack(gone))
    redis.call('ZREM', k[BEGUN], unpack(gone))
    redis.call('HDEL', k[JOB], unpack(gone))
    redis.call('HDEL', k[TRY], unpack(gone))
  end
  return results
end

local function die(k, id, due, packed)
  redis.call('ZADD', k[DEAD], due, id)
  redis.call('HSET', k[DEAD_JOB], id, redis.call('HGET', k[JOB], id))
  redis.call('HSET', k[DEAD_TRY], id, packed)
  remove(k, id)
end

-- What a claim answers of one id: attempt, ended, deadline, period, body.
local function answer(result, attempt, ended, due, every, body)
  local n = #result
  result[n + 1], result[n + 2], result[n + 3] = attempt, ended, due
  result[n + 4], result[n + 5] = every, body
end

-- Of what was not granted, the attempt is 0, and in place of `ended` stands why.
local GONE, EARLY, DIED = 0, 1, 2

-- All keys. epoch, length of the lease, attempts, how far ahead, and ids
-- -> false if the shard is another's; else the time in us, and an answer of each id
local function claim(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local us = now_us()
  local now, lease, most, ahead = math.floor(us / 1000), a[2], tonumber(a[3]), a[4]
  local ids, result, later, starts, tries, over = {unpack(a, 5)}, {us}, {}, {}, {}, {}
  local due, body = redis.call('ZMSCORE', k[DUE], unpack(ids)), redis.call('HMGET', k[JOB], unpack(ids))
  local begun, try = about(k, ids)
  for i, id in ipairs(ids) do
    local visible = not over[id] and tonumber(due[i])
    local attempt, ended, every = unpack_try(try[i], begun[i])
    if not visible then
      answer(result, 0, GONE, 0, 0, '')
    elseif visible > now + ahead then
      answer(result, 0, EARLY, visible, 0, '')
    elseif most > 0 and attempt - ended >= most then
      over[id] = true
      die(k, id, begun[i], pack(attempt, ended, every))
      answer(result, 0, DIED, 0, 0, '')
    else
      over[id] = true
      local n, s = #later, #starts
      later[n + 1], later[n + 2] = math.max(now, visible) + lease, id
      if not begun[i] then starts[s + 1], starts[s + 2] = visible, id end
      if attempt > 0 or every > 0 then
        local t = #tries
        tries[t + 1], tries[t + 2] = id, pack(attempt + 1, ended, every)
      end
      answer(result, attempt + 1, ended, tonumber(begun[i]) or visible, every, body[i])
    end
  end
  if #later > 0 then redis.call('ZADD', k[DUE], unpack(later)) end
  if #starts > 0 then redis.call('ZADD', k[BEGUN], unpack(starts)) end
  if #tries > 0 then redis.call('HSET', k[TRY], unpack(tries)) end
  return result
end

-- Keys up to own. epoch, due and id of a place, until when, limit
-- -> false if the shard is another's; else the time in us, and id and due of each
local function take(k, a)
  local epoch, taken = unpack(redis.call('HMGET', k[OWN], 'e', 'w'))
  if epoch ~= a[1] then return false end
  local limit = tonumber(a[5])
  local from = rank_after(k[DUE], a[2], a[3])
  local count = math.min(limit, redis.call('ZCOUNT', k[DUE], '-inf', a[4]) - from)
  local result = {}
  if count > 0 then result = redis.call('ZRANGE', k[DUE], from, from + count - 1, 'WITHSCORES') end
  local till = count == limit and result[#result] or a[4]
  if tonumber(till) > tonumber(taken) then redis.call('HSET', k[OWN], 'w', till) end
  return {now_us(), result}
end

-- own. me, length of the lease -> the time in us, and the epoch: 0 if it is somebody else's
local function own(k, a)
  local us = now_us()
  local now = math.floor(us / 1000)
  local owner, epoch, till = unpack(redis.call('HMGET', k[1], 'o', 'e', 'u'))
  local is_owned = owner and tonumber(till) > now
  if is_owned and owner ~= a[1] then return {us, 0} end
  if not is_owned then
    epoch = (tonumber(epoch) or 0) + 1
    redis.call('HSET', k[1], 'o', a[1], 'e', epoch, 'w', 0)
  end
  redis.call('HSET', k[1], 'u', now + a[2])
  return {us, tonumber(epoch)}
end

-- own. epoch
local function release(k, a)
  if redis.call('HGET', k[1], 'e') == a[1] then redis.call('HSET', k[1], 'u', 0) end
  return 0
end

-- members. me, length of the lease -> the time in us, and how many there are
local function join(k, a)
  local us = now_us()
  local now = math.floor(us / 1000)
  redis.call('ZREMRANGEBYSCORE', k[1], '-inf', now)
  redis.call('ZADD', k[1], now + a[2], a[1])
  return {us, redis.call('ZCARD', k[1])}
end

-- Adds what is shown of some timers: id, deadline, period, attempt, ended, body. `due` are the
-- deadlines of those that have not begun.
local function show(k, ids, due, result)
  if #ids == 0 then return end
  local begun, try = about(k, ids)
  local body = redis.call('HMGET', k[JOB], unpack(ids))
  for i, id in ipairs(ids) do
    local attempt, ended, every = unpack_try(try[i], begun[i])
    result[#result + 1] = id
    answer(result, tonumber(begun[i] or due[i]), every, attempt, ended, body[i])
  end
end

-- Keys up to try. id -> what is shown of it, or nothing
local function find(k, a)
  local result, due = {}, redis.call('ZSCORE', k[DUE], a[1])
  if due then show(k, {a[1]}, {due}, result) end
  return result
end

-- Some of a sorted set, from that rank on: ids, deadlines
local function ranks(key, from, count)
  local got, ids, due = redis.call('ZRANGE', key, from, from + count - 1, 'WITHSCORES'), {}, {}
  for i = 1, #got, 2 do
    ids[#ids + 1] = got[i]
    due[#due + 1] = got[i + 1]
  end
  return ids, due
end

-- Those of a page that have not begun, at most so many: ids, deadlines
local function not_begun(k, ids, due, most)
  local waiting, deadlines = {}, {}
  local begun = #ids > 0 and redis.call('ZMSCORE', k[BEGUN], unpack(ids))
  for i, id in ipairs(ids) do
    if not begun[i] and #waiting < most then
      waiting[#waiting + 1], deadlines[#deadlines + 1] = id, due[i]
    end
  end
  return waiting, deadlines
end

-- Shows those next after a place, page by page; `chosen` says which of a page.
local PAGE = 1000
local function walk(k, key, a, result, chosen)
  local from, left, ids, due = rank_after(key, a[1], a[2]), tonumber(a[3])
  repeat
    ids, due = ranks(key, from, PAGE)
    from = from + #ids
    local shown, deadlines = chosen(k, ids, due, left)
    show(k, shown, deadlines, result)
    left = left - #shown
  until #ids < PAGE or left == 0
end

-- Keys up to try, or those of the dead. due and id of a place, limit
-- -> what is shown of those next after it: so many that have begun, and so many others
local function list(k, a)
  local result = {}
  walk(k, k[BEGUN], a, result, function(_, ids, due, most)
    return {unpack(ids, 1, math.min(#ids, most))}, due
  end)
  walk(k, k[DUE], a, result, not_begun)
  return result
end

-- All keys -> how many wait, and are dead
local function count(k)
  return {redis.call('ZCARD', k[DUE]), redis.call('ZCARD', k[DEAD])}
end

-- All keys. me, id, due -> 0 not dead, 1 put back, 2 there already
local function revive(k, a)
  local id, due = a[2], a[3]
  local packed = redis.call('HGET', k[DEAD_TRY], id)
  if not packed then return 0 end
  if redis.call('HEXISTS', k[JOB], id) == 1 then return 2 end
  local attempt, _, every = unpack_try(packed)
  redis.call('HSET', k[JOB], id, redis.call('HGET', k[DEAD_JOB], id))
  redis.call('HSET', k[TRY], id, pack(attempt, attempt, every))
  redis.call('ZADD', k[DUE], due, id)
  bury(k, id)
  local tell = teller(k, a[1])
  if tell then tell(id, due) end
  return 1
end

-- meta. shards -> the time in us, and the shards that there are
local function open(k, a)
  local version, shards = unpack(redis.call('HMGET', k[1], 'version', 'shards'))
  if version and tonumber(version) > VERSION then
    return redis.error_reply('NEWER these timers are of version ' .. version)
  end
  shards = shards or a[1]
  redis.call('HSET', k[1], 'version', VERSION, 'shards', shards)
  return {now_us(), tonumber(shards)}
end

local function version()
  return VERSION
end

local function register(name, callback, ...)
  redis.register_function({function_name = 'tvec_durable_' .. name, callback = callback, flags = {...}})
end

-- A server that is out of memory takes no more timers; all else goes on.
register('put', put)
register('revive', revive)
register('cancel', cancel, 'allow-oom')
register('finish', finish, 'allow-oom')
register('claim', claim, 'allow-oom')
register('take', take, 'allow-oom')
register('own', own, 'allow-oom')
register('release', release, 'allow-oom')
register('join', join, 'allow-oom')
register('open', open, 'allow-oom')
register('find', find, 'no-writes')
register('list', list, 'no-writes')
register('count', count, 'no-writes')
register('version', version, 'no-writes')
