#!lua name=tvec_durable
-- The operations of durable timers, as functions on a Redis server. The store replaces an older
-- version of this library, and refuses a server with a newer one. The names of functions hold the
-- version, so a process that knows another version fails and changes nothing.
--
-- A shard is these keys, in this order, all in one hash slot. Each function receives the keys that
-- it needs in k, and its arguments in a:
--   due      zset  id -> deadline in ms since 1970, of timers without an open attempt
--   timer    hash  id -> head and body: see `pack`. Dead letters are among them
--   begun    zset  id -> end of the lease in ms, of timers with an open attempt
--   body     hash  id -> body, if it is longer than INLINE
--   own      hash  o: owner, e: epoch, u: end of the lease, l: length of the lease, w: end of the
--                  owner's window, t: time of the last renewal
--   dead     zset  id -> deadline, of dead letters
--   damaged  hash  id -> entry of `timer`, of timers set aside because they cannot be read
--
-- Version 3 names the function `end`, which version 2 called `finish`. Their data are the same.
local VERSION = 3
local DUE, TIMER, BEGUN, BODY, OWN, DEAD, DAMAGED = 1, 2, 3, 4, 5, 6, 7
local LATEST = 253402300799999
-- Longer bodies have a key of their own, so a claim or an end does not copy them.
local INLINE = 1024
-- Kinds of timers: the first byte of an entry. SPENT means OPEN with an attempt that is counted as spent.
-- DEAD_LETTER: the timer had all its attempts. APART is added if the body has a key of its own.
local WAITING, OPEN, DEAD_LETTER, SPENT, APART = 0, 1, 2, 3, 4
-- The head: kind, attempt, ended, spent, period, deadline. An open attempt adds the end and the length of
-- its lease.
local HEAD, OPEN_HEAD = '<BI4I4I4I8I8', '<BI4I4I4I8I8I8I8'
local HEAD_SIZE, OPEN_SIZE = 29, 45

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

-- Returns an entry of `timer`. `rest` is its body, or '' if that is apart.
local function pack(kind, attempt, ended, spent, every, due, rest)
  return struct.pack(HEAD, kind, attempt, ended, spent, every, due) .. rest
end

local function pack_open(kind, attempt, ended, spent, every, due, till, length, rest)
  return struct.pack(OPEN_HEAD, kind, attempt, ended, spent, every, due, math.max(till, 0), math.max(length, 0)) .. rest
end

-- Returns kind, attempt, ended, spent, period, deadline, end and length of the lease (0 without an open
-- attempt), is_apart, the offset of the body, and is_spent. Returns nothing if the entry cannot be read.
local function unpack_timer(entry)
  if not entry or #entry < HEAD_SIZE then return end
  local kind, attempt, ended, spent, every, due, at = struct.unpack(HEAD, entry)
  local is_apart, till, length = kind >= APART, 0, 0
  if is_apart then kind = kind - APART end
  local is_spent = kind == SPENT
  if is_spent then kind = OPEN end
  if kind == OPEN and #entry >= OPEN_SIZE then
    till, length, at = struct.unpack('<I8I8', entry, at)
  elseif kind ~= WAITING and kind ~= DEAD_LETTER then
    return
  end
  if due > LATEST then return end
  return kind, attempt, ended, spent, every, due, till, length, is_apart, at, is_spent
end

-- Returns the first byte of an entry.
local function flags(kind, is_apart)
  return is_apart and kind + APART or kind
end

-- Returns a score as a deadline, or nil if it is no deadline.
local function deadline_of(score)
  local due = tonumber(score)
  return due and due >= 0 and due <= LATEST and due % 1 == 0 and due or nil
end

-- Returns true if a lease counts: it has not ended, and it ends within its length from now.
local function holds(till, length, now)
  return till and length and till > now and till - now <= length
end

-- Returns the first beat of a period that lies after now.
local function next_beat(due, every, now)
  local missed = math.floor(math.max(now - due, 0) / every)
  if missed >= math.floor((LATEST - due) / every) then return LATEST end
  return due + (missed + 1) * every
end

-- Compares byte by byte, as sorted sets do. Lua's own comparison follows a locale.
local function is_after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- Compares places {id, score}.
local function is_before(a, b)
  if a[2] ~= b[2] then return a[2] < b[2] end
  return is_after(b[1], a[1])
end

-- Returns the rank of the next member after a place of a sorted set. The place '', '0' is before all scores.
local function rank_after(key, due, id)
  if id == '' and due == '0' then return 0 end
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

-- Returns a function that sends a hint to the owner of a shard, or nil if that is `me` or nobody. A hint tells
-- of a timer that was put into the window of the owner.
local function hint_sender(k, me)
  local owner, till, length, taken = unpack(redis.call('HMGET', k[OWN], 'o', 'u', 'l', 'w'))
  till = tonumber(till)
  if not owner or owner == me or not holds(till, tonumber(length) or till, now_ms()) then return nil end
  taken = tonumber(taken) or LATEST
  return function(id, due)
    if tonumber(due) <= taken then redis.call('PUBLISH', owner, due .. ' ' .. id) end
  end
end

-- Sets a timer aside that cannot be read. A body that is apart stays.
local function set_aside(k, id)
  redis.call('HSET', k[DAMAGED], id, redis.call('HGET', k[TIMER], id) or '')
  redis.call('HDEL', k[TIMER], id)
  redis.call('ZREM', k[DUE], id)
  redis.call('ZREM', k[BEGUN], id)
  redis.call('ZREM', k[DEAD], id)
end

-- Removes everything that has an id. Returns whether it waited, had an open attempt, was a dead letter, and was
-- damaged.
local function remove(k, id)
  redis.call('HDEL', k[TIMER], id)
  redis.call('HDEL', k[BODY], id)
  return redis.call('ZREM', k[DUE], id) == 1, redis.call('ZREM', k[BEGUN], id) == 1,
    redis.call('ZREM', k[DEAD], id) == 1, redis.call('HDEL', k[DAMAGED], id) == 1
end

-- Returns the first attempt of a timer that replaces another one. Deliveries of the old timer must not end the
-- new one. The last attempt of a damaged timer is unknown: the seconds since 1970 are an upper bound.
local function next_attempt(entry)
  local _, attempt = unpack_timer(entry)
  return (attempt or math.floor(now_ms() / 1000)) + 1
end

-- Answers of `put`.
local THERE, STORED, IS_DEAD = 0, 1, 2

-- Returns THERE or IS_DEAD if the id is taken, or nil.
local function present(k, id, entry, some_damaged)
  if entry then
    local kind = unpack_timer(entry)
    return kind == DEAD_LETTER and IS_DEAD or THERE
  end
  return some_damaged and redis.call('HEXISTS', k[DAMAGED], id) == 1 and IS_DEAD or nil
end

-- Keys: all. Arguments: me, 'keep' or 'replace', and id, due, period, body of each.
-- Answers THERE, STORED or IS_DEAD for each. A damaged timer counts as dead.
local function put(k, a)
  local keeps, ids, results, timers, added, n = a[2] == 'keep', {}, {}, {}, {}, 0
  for i = 3, #a, 4 do ids[(i + 1) / 4] = a[i] end
  local entries, tell = redis.call('HMGET', k[TIMER], unpack(ids)), hint_sender(k, a[1])
  local some_damaged, seen = redis.call('EXISTS', k[DAMAGED]) == 1, {}
  for i, id in ipairs(ids) do
    local entry, due, body, attempt = seen[id] or entries[i], a[4 * i], a[4 * i + 2], 0
    local there = present(k, id, entry, some_damaged)
    if there and keeps then
      results[i] = there
    else
      if there then
        attempt = next_attempt(entry)
        remove(k, id)
      end
      local is_apart = #body > INLINE
      if is_apart then redis.call('HSET', k[BODY], id, body) end
      entry = pack(flags(WAITING, is_apart), attempt, attempt, 0, a[4 * i + 1], due, is_apart and '' or body)
      timers[n + 1], timers[n + 2] = id, entry
      added[n + 1], added[n + 2] = due, id
      results[i], seen[id], n = STORED, entry, n + 2
      if tell then tell(id, due) end
    end
  end
  if n > 0 then
    redis.call('HSET', k[TIMER], unpack(timers))
    redis.call('ZADD', k[DUE], unpack(added))
  end
  return results
end

-- Keys: all. Argument: id. Answers 0: unknown id, 1: cancelled, 2: removed, but it had an open attempt, was a
-- dead letter or was damaged.
local function cancel(k, a)
  local waited, had_begun, was_dead, was_damaged = remove(k, a[1])
  return waited and 1 or (had_begun or was_dead or was_damaged) and 2 or 0
end

-- Keys: up to body. Arguments: id, attempt and how, of each. How is '' for done, 'r' for returned, or the next
-- deadline. Answers 0 for each attempt that is not the current one, 1 for a timer that was removed, and otherwise
-- 2 + its next deadline.
local function end_deliveries(k, a)
  local ids, results, gone, apart, again, still, timers, over = {}, {}, {}, {}, {}, {}, {}, {}
  local now = now_ms()
  for i = 1, #a, 3 do ids[(i + 2) / 3] = a[i] end
  local entries = redis.call('HMGET', k[TIMER], unpack(ids))
  for i, id in ipairs(ids) do
    local kind, attempt, ended, spent, every, due, _, length, is_apart, at, is_spent = unpack_timer(entries[i])
    local how = a[3 * i]
    if kind ~= OPEN or over[id] or attempt ~= tonumber(a[3 * i - 1]) then
      results[i] = 0
    elseif how == '' and every == 0 then
      gone[#gone + 1] = id
      if is_apart then apart[#apart + 1] = id end
      results[i] = 1
    else
      local n, is_returned, rest = #timers, how == 'r', entries[i]:sub(at)
      if not is_returned then
        due, spent = tonumber(how) or next_beat(due, every, now), 0
      elseif is_spent then
        spent = spent - 1
      end
      timers[n + 1] = id
      if is_returned and attempt ~= ended + 1 then
        still[#still + 1], still[#still + 2] = due, id
        timers[n + 2] = pack_open(flags(OPEN, is_apart), attempt, ended, spent, every, due, due, length, rest)
      else
        again[#again + 1], again[#again + 2] = due, id
        timers[n + 2] = pack(flags(WAITING, is_apart), attempt, attempt, spent, every, due, rest)
      end
      results[i] = 2 + due
    end
    over[id] = true
  end
  if #timers > 0 then redis.call('HSET', k[TIMER], unpack(timers)) end
  if #still > 0 then redis.call('ZADD', k[BEGUN], unpack(still)) end
  for i = 2, #again, 2 do redis.call('ZREM', k[BEGUN], again[i]) end
  if #again > 0 then redis.call('ZADD', k[DUE], unpack(again)) end
  if #gone > 0 then
    redis.call('ZREM', k[BEGUN], unpack(gone))
    redis.call('HDEL', k[TIMER], unpack(gone))
  end
  if #apart > 0 then redis.call('HDEL', k[BODY], unpack(apart)) end
  return results
end

-- Keys: up to own. Arguments: epoch, and id, attempt of each. Answers false if another process owns the shard.
-- Otherwise 1 for each attempt that is the current one, and 0 for others.
local function spend(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local results = {}
  for i = 2, #a, 2 do
    local entry = redis.call('HGET', k[TIMER], a[i])
    local kind, attempt, ended, spent, every, due, till, length, is_apart, at, is_spent = unpack_timer(entry)
    local is_current = kind == OPEN and attempt == tonumber(a[i + 1])
    if is_current and not is_spent then
      redis.call('HSET', k[TIMER], a[i],
        pack_open(flags(SPENT, is_apart), attempt, ended, spent + 1, every, due, till, length, entry:sub(at)))
    end
    results[i / 2] = is_current and 1 or 0
  end
  return results
end

-- Answers of `claim`. A granted timer has its entry, with the body in it. EARLY is followed by the time of the
-- claim.
local GONE, EARLY, DIED, LATER, BROKEN = '0', '1', '2', '3', '4'

-- Handles an entry that is missing or cannot be read. Returns the answer of `claim`.
local function unreadable(k, id, entry)
  if not entry and not redis.call('ZSCORE', k[DUE], id) and not redis.call('ZSCORE', k[BEGUN], id) then return GONE end
  set_aside(k, id)
  return BROKEN
end

-- Keys: all. Arguments: epoch, length of the lease, attempts, claim_ahead, bytes, and ids. Answers false if another
-- process owns the shard. Otherwise the time in us, and an answer for each id.
local function claim(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local us = now_us()
  local now, lease, most = math.floor(us / 1000), tonumber(a[2]), tonumber(a[3])
  local soon, bytes, ids = now + a[4], math.max(tonumber(a[5]), 1), {unpack(a, 6)}
  local entries, result, seen = redis.call('HMGET', k[TIMER], unpack(ids)), {us}, {}
  local closed, leases, timers, c, n = {}, {}, {}, 0, 0
  for i, id in ipairs(ids) do
    local entry = entries[i]
    local kind, attempt, ended, spent, every, due, till, length, is_apart, at = unpack_timer(entry)
    local visible = kind == OPEN and math.min(till, now + length) or due
    if not kind then
      result[i + 1] = unreadable(k, id, entry)
    elseif kind == DEAD_LETTER or seen[id] then
      result[i + 1] = GONE
    elseif visible > soon then
      result[i + 1] = EARLY .. string.format('%.0f', visible)
    elseif most > 0 and spent >= most then
      redis.call('ZREM', k[DUE], id)
      redis.call('ZREM', k[BEGUN], id)
      redis.call('ZADD', k[DEAD], due, id)
      local letter = pack(flags(DEAD_LETTER, is_apart), attempt, ended, spent, every, due, entry:sub(at))
      redis.call('HSET', k[TIMER], id, letter)
      result[i + 1] = DIED
    elseif bytes <= 0 then
      result[i + 1] = LATER
    else
      local rest, body = entry:sub(at)
      if is_apart then body = redis.call('HGET', k[BODY], id) else body = rest end
      if body then
        if kind == WAITING then c = c + 1; closed[c] = id end
        till = math.max(now, visible) + lease
        leases[n + 1], leases[n + 2] = till, id
        local granted = pack_open(OPEN, attempt + 1, ended, spent, every, due, till, till - now, body)
        result[i + 1] = granted
        if is_apart then
          granted = pack_open(OPEN + APART, attempt + 1, ended, spent, every, due, till, till - now, '')
        end
        timers[n + 1], timers[n + 2] = id, granted
        n, bytes = n + 2, bytes - #body
      else
        result[i + 1] = unreadable(k, id, entry)
      end
    end
    seen[id] = true
  end
  if c > 0 then redis.call('ZREM', k[DUE], unpack(closed)) end
  if n > 0 then
    redis.call('ZADD', k[BEGUN], unpack(leases))
    redis.call('HSET', k[TIMER], unpack(timers))
  end
  return result
end

-- Returns the places of a sorted set after the place in a[2], a[3]: id and score of each.
local function places(key, a, till, limit)
  local from, got = rank_after(key, a[2], a[3]), {}
  local count = math.min(limit, redis.call('ZCOUNT', key, '-inf', till) - from)
  if count > 0 then got = redis.call('ZRANGE', key, from, from + count - 1, 'WITHSCORES') end
  return got
end

-- Merges two sorted lists of places (id and score of each) into one of at most `limit` places. Takes linear time,
-- because one command must not keep the server busy for long.
local function merged(a, b, limit)
  if #b == 0 then return a end
  local result, n, i, j = {}, 0, 1, 1
  while n < 2 * limit and (i < #a or j < #b) do
    local x, y = tonumber(a[i + 1]), tonumber(b[j + 1])
    if not y or x and (x < y or x == y and is_after(b[j], a[i])) then
      result[n + 1], result[n + 2], i = a[i], a[i + 1], i + 2
    else
      result[n + 1], result[n + 2], j = b[j], b[j + 1], j + 2
    end
    n = n + 2
  end
  return result
end

-- Sets timers aside whose deadlines cannot be read. Returns true if there were any.
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

-- Keys: all. Arguments: epoch, due and id of a place, last deadline, limit. Answers false if another process owns
-- the shard. Otherwise the time in us, and id and due of each timer after the place.
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

-- Shortens leases of claims that end later than their length from now: the clock was set back.
local function shorten(k, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', k[BEGUN], '(' .. now, '+inf')) do
    local entry = redis.call('HGET', k[TIMER], id)
    local kind, attempt, ended, spent, every, due, till, length, is_apart, at, is_spent = unpack_timer(entry)
    if kind ~= OPEN then
      set_aside(k, id)
    elseif till - now > length then
      till, kind = now + length, is_spent and SPENT or OPEN
      redis.call('ZADD', k[BEGUN], till, id)
      redis.call('HSET', k[TIMER], id,
        pack_open(flags(kind, is_apart), attempt, ended, spent, every, due, till, length, entry:sub(at)))
    end
  end
end

-- Keys: all. Arguments: me, length of the lease. Answers the time in us, and the epoch, which is 0 if another
-- process owns the shard.
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

-- Key: own. Argument: epoch.
local function release(k, a)
  if redis.call('HGET', k[1], 'e') == a[1] then redis.call('HSET', k[1], 'u', 0) end
  return 0
end

-- Key: processes, a hash of name -> end and length of the lease. Arguments: me, length of the lease. Answers the
-- time in us, and the number of processes.
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

-- Keys: all. Arguments: 'waiting' or 'dead', and ids. Answers id, deadline, period, attempt, ended, spent and body
-- of each timer of that set that can be read.
local function show(k, a)
  local result, n, wants_dead, ids = {}, 0, a[1] == 'dead', {unpack(a, 2)}
  for i, entry in ipairs(redis.call('HMGET', k[TIMER], unpack(ids))) do
    local kind, attempt, ended, spent, every, due, _, _, is_apart, at = unpack_timer(entry)
    local body
    if kind and (kind == DEAD_LETTER) == wants_dead then
      body = is_apart and redis.call('HGET', k[BODY], ids[i]) or not is_apart and entry:sub(at)
    end
    if body then
      result[n + 1], result[n + 2], result[n + 3], result[n + 4] = ids[i], due, every, attempt
      result[n + 5], result[n + 6], result[n + 7] = ended, spent, body
      n = n + 7
    end
  end
  return result
end

-- Appends the places, after another one, of timers with an open attempt. Looks at all of these.
local function add_begun(k, after, result)
  local ids, page = redis.call('ZRANGE', k[BEGUN], 0, -1), 1000
  for from = 1, #ids, page do
    local some = {unpack(ids, from, math.min(from + page - 1, #ids))}
    for i, entry in ipairs(redis.call('HMGET', k[TIMER], unpack(some))) do
      local kind, _, _, _, _, due = unpack_timer(entry)
      local place = {some[i], due}
      if kind and is_before(after, place) then result[#result + 1] = place end
    end
  end
end

-- Keys: all. Arguments: 'waiting' or 'dead', due and id of a place, limit. Answers id and deadline of the timers
-- after it, at most `limit` without and `limit` with an open attempt.
local function list(k, a)
  local limit, begun, result, n = tonumber(a[4]), {}, {}, 0
  local got = places(a[1] == 'dead' and k[DEAD] or k[DUE], a, '+inf', limit)
  for i = 1, #got, 2 do
    local due = deadline_of(got[i + 1])
    if due then
      result[n + 1], result[n + 2] = got[i], due
      n = n + 2
    end
  end
  if a[1] == 'dead' then return result end
  add_begun(k, {a[3], tonumber(a[2])}, begun)
  table.sort(begun, is_before)
  for i = 1, math.min(#begun, limit) do
    result[n + 1], result[n + 2] = begun[i][1], begun[i][2]
    n = n + 2
  end
  return result
end

-- Keys: all. Answers the numbers of waiting timers, dead letters and damaged timers.
local function count(k)
  local waiting = redis.call('ZCARD', k[DUE]) + redis.call('ZCARD', k[BEGUN])
  return {waiting, redis.call('ZCARD', k[DEAD]), redis.call('HLEN', k[DAMAGED])}
end

-- Keys: all. Arguments: me, id, due. Answers 1 if a dead letter was revived. Otherwise 0, also if it is damaged.
local function revive(k, a)
  local id, due = a[2], a[3]
  local entry = redis.call('HGET', k[TIMER], id)
  local kind, attempt, _, _, every, _, _, _, is_apart, at = unpack_timer(entry)
  if kind ~= DEAD_LETTER then return 0 end
  redis.call('HSET', k[TIMER], id, pack(flags(WAITING, is_apart), attempt, attempt, 0, every, due, entry:sub(at)))
  redis.call('ZREM', k[DEAD], id)
  redis.call('ZADD', k[DUE], due, id)
  local tell = hint_sender(k, a[1])
  if tell then tell(id, due) end
  return 1
end

-- Key: meta. Argument: shards. Answers the time in us, and the number of shards and the version of the timers on
-- the server.
local function open(k, a)
  local version, shards = unpack(redis.call('HMGET', k[1], 'version', 'shards'))
  if version and tonumber(version) > VERSION then
    return redis.error_reply('NEWER these timers are of version ' .. version)
  end
  shards, version = shards or a[1], version or VERSION
  redis.call('HSET', k[1], 'version', version, 'shards', shards)
  return {now_us(), tonumber(shards), tonumber(version)}
end

-- Version 1 had other keys: job (id -> body), try (id -> attempt, ended, period), begun (by deadline, and also in
-- due, by the end of the lease), dead:job and dead:try. It kept no length of a lease: an hour is the upper bound.
local OLD_JOB, OLD_TRY, OLD_DEAD_JOB, OLD_DEAD_TRY, OLD_TRY_SIZE = 8, 9, 10, 11, 16
local LONGEST_OLD_LEASE = 3600000

local function old_try(k, key, id, has_begun)
  local packed = redis.call('HGET', k[key], id)
  if packed and #packed == OLD_TRY_SIZE then return struct.unpack('<I4I4I8', packed) end
  return has_begun and 1 or 0, 0, 0
end

-- Upgrades a timer of version 1. If a waiting timer and a dead letter had the same id, the waiting one is kept.
local function upgrade_timer(k, id, body, now, is_dead)
  local begun, till = redis.call('ZSCORE', k[BEGUN], id), deadline_of(redis.call('ZSCORE', k[DUE], id))
  local due = deadline_of(is_dead and redis.call('ZSCORE', k[DEAD], id) or begun) or till
  local attempt, ended, every = old_try(k, is_dead and OLD_DEAD_TRY or OLD_TRY, id, begun)
  local is_apart = #body > INLINE
  local rest, entry = is_apart and '' or body
  if redis.call('HEXISTS', k[TIMER], id) == 1 then
    if is_dead then redis.call('ZREM', k[DEAD], id) end
    return
  end
  if not due then return end
  if is_dead then
    entry = pack(flags(DEAD_LETTER, is_apart), attempt, ended, attempt - ended, every, due, rest)
  elseif begun then
    till = till or now
    redis.call('ZREM', k[DUE], id)
    redis.call('ZADD', k[BEGUN], till, id)
    local length = math.min(till - now, LONGEST_OLD_LEASE)
    entry = pack_open(flags(OPEN, is_apart), attempt, ended, 0, every, due, till, length, rest)
  else
    entry = pack(flags(WAITING, is_apart), attempt, ended, 0, every, due, rest)
  end
  if is_apart then redis.call('HSET', k[BODY], id, body) end
  redis.call('HSET', k[TIMER], id, entry)
end

-- Upgrades some timers of two keys. Returns true if there were any.
local function upgrade_some(k, jobs, tries, is_dead)
  local cursor, now, some = '0', now_ms()
  repeat
    cursor, some = unpack(redis.call('HSCAN', k[jobs], cursor, 'COUNT', 100))
  until #some > 0 or cursor == '0'
  for i = 1, #some, 2 do
    upgrade_timer(k, some[i], some[i + 1], now, is_dead)
    redis.call('HDEL', k[jobs], some[i])
    redis.call('HDEL', k[tries], some[i])
  end
  return #some > 0
end

-- Keys: all, and those of version 1. Answers 1 if there may be more. Timers of version 2 need no upgrade.
local function upgrade(k)
  local is_more = upgrade_some(k, OLD_JOB, OLD_TRY, false) or upgrade_some(k, OLD_DEAD_JOB, OLD_DEAD_TRY, true)
  return is_more and 1 or 0
end

-- Keys: meta, and the processes of version 1. Notes that all shards have this version.
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

-- A server that is out of memory refuses new timers. Everything else works.
register_version('put', put)
register_version('revive', revive)
register_version('cancel', cancel, 'allow-oom')
register_version('end', end_deliveries, 'allow-oom')
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
