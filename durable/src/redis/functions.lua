#!lua name=tvec_durable
-- The operations of durable timers, as functions on a Redis server. The store replaces an older
-- version of this library, and refuses a server with a newer one. The names of functions hold the
-- version, so a process that knows another version fails and changes nothing.
--
-- A shard is these keys, in this order, all in one hash slot. Each function receives its keys in k,
-- and its arguments in a:
--   due      zset  id -> deadline in ms since 1970, of timers without an open attempt
--   timer    hash  id -> head, texts and body: see `pack`. Dead letters are among them
--   begun    zset  id -> end of the lease in ms, of timers with an open attempt
--   body     hash  id -> body, if it is longer than INLINE
--   own      hash  o: owner, e: epoch, u: end of the lease, l: length of the lease, w: end of the
--                  owner's window, t: time of the last renewal, s: shards of the set, v: version,
--                  r: cursor of `restore_places`, a: last attempt of timers that are gone, see `note_gone`
--   dead     zset  id -> deadline, of dead letters
--   damaged  hash  id -> entry of `timer`, of timers set aside because they cannot be read
--
-- The functions of the last part, `tvec_put` and others, are for programs in any language. Their names hold no
-- version: durable/docs/using.md promises what stays.
--
-- Version 4 adds texts to entries, and notes the shards of the set in each shard. Version 5 has its owner restore what
-- somebody has deleted. Version 6 finds the timer that waits longest, and stores the dead letters of beats. Version 7
-- finds those of which attempts had no end, and notes in the history of a period when its next beat was planned.
-- 8 grants each claim: the owner decides what becomes of a timer whose attempts are spent. It has the attempts of a
-- timer that is put follow those of timers that are gone. Entries of versions 2 to 7 are entries of version 8.
local VERSION = 8
local DUE, TIMER, BEGUN, BODY, OWN, DEAD, DAMAGED = 1, 2, 3, 4, 5, 6, 7
local LATEST = 253402300799999
-- Bounds of what an entry holds: the times and lengths that arithmetic takes, the bytes of an id, and the last attempt
-- that another one can follow.
local LIMIT, LONGEST_ID, LAST_ATTEMPT = 1000000000000000, 255, 4294967294
-- Attempts of timers that are put begin anew after so many.
local ATTEMPTS_OF_PUTS = 1073741824
-- Bytes of a body. An entry of put is shorter by far.
local LARGEST_BODY = 1048576
-- Longer bodies have a key of their own, so a claim or an end does not copy them.
local INLINE = 1024
-- Kinds of timers: the first byte of an entry. SPENT means OPEN with an attempt that is counted as spent.
-- DEAD_LETTER: the timer had all its attempts. APART is added if the body has a key of its own, and NOTED if the
-- entry has texts.
local WAITING, OPEN, DEAD_LETTER, SPENT, APART, NOTED = 0, 1, 2, 3, 4, 8
-- The head: kind, attempt, ended, spent, period, deadline. An open attempt adds the end and the length of
-- its lease. The length is even if that is the lease of the claim, and odd if something has changed it.
local HEAD, OPEN_HEAD = '<BI4I4I4I8I8', '<BI4I4I4I8I8I8I8'
local HEAD_SIZE, OPEN_SIZE = 29, 45
-- The texts: the lengths of plan, history and verdict, and these.
local TEXTS, TEXTS_SIZE = '<I4I4I4', 12
local LONGEST_REASON = 500

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

-- Returns an entry of `timer`. `rest` is its texts, and its body if that is not apart.
local function pack(kind, attempt, ended, spent, every, due, rest)
  return struct.pack(HEAD, kind, attempt, ended, spent, every, due) .. rest
end

-- Returns the length of the lease of a claim, and that of another one: see HEAD.
local function of_claim(length)
  return length + length % 2
end

local function of_another(length)
  return math.max(length - length % 2, 0) + 1
end

-- Returns the texts of an entry, packed, and NOTED. Returns '' and 0 if all are empty.
local function pack_texts(plan, history, verdict)
  if plan == '' and history == '' and verdict == '' then return '', 0 end
  return struct.pack(TEXTS, #plan, #history, #verdict) .. plan .. history .. verdict, NOTED
end

-- Returns the offset of the body of an entry with texts, or nil if the texts cannot be read.
local function after_texts(entry, at)
  if #entry < at + TEXTS_SIZE - 1 then return end
  local plan, history, verdict = struct.unpack(TEXTS, entry, at)
  local from = at + TEXTS_SIZE + plan + history + verdict
  return from <= #entry + 1 and from or nil
end

-- Returns plan, history and verdict of a timer.
local function texts_of(t)
  if t.texts == t.body then return '', '', '' end
  local plan, history = struct.unpack(TEXTS, t.entry, t.texts)
  local p = t.texts + TEXTS_SIZE
  local h = p + plan
  local v = h + history
  return t.entry:sub(p, h - 1), t.entry:sub(h, v - 1), t.entry:sub(v, t.body - 1)
end

-- Returns the timer of an entry, or nil if it cannot be read. `till` and `length` are those of the lease (0 without an
-- open attempt), `marks` APART and NOTED, `texts` and `body` the offsets of these in the entry.
local function timer_of(entry)
  if not entry or #entry < HEAD_SIZE or #entry > LARGEST_BODY then return end
  local kind, attempt, ended, spent, every, due, texts = struct.unpack(HEAD, entry)
  local marks, till, length = kind - kind % APART, 0, 0
  kind = kind % APART
  local is_spent = kind == SPENT
  if is_spent then kind = OPEN end
  if kind == OPEN and #entry >= OPEN_SIZE then
    till, length, texts = struct.unpack('<I8I8', entry, texts)
  elseif kind ~= WAITING and kind ~= DEAD_LETTER then
    return
  end
  local body = texts
  if marks >= NOTED then body = after_texts(entry, texts) end
  if due > LATEST or every > LATEST or till >= LIMIT or length >= LIMIT then return end
  if ended > attempt or attempt > LAST_ATTEMPT or kind == OPEN and attempt == 0 or is_spent and spent == 0 then return end
  if marks > APART + NOTED or not body then return end
  return {kind = kind, attempt = attempt, ended = ended, spent = spent, is_spent = is_spent, every = every, due = due,
    till = till, length = length, marks = marks, entry = entry, texts = texts, body = body}
end

-- Returns the entry of a timer with an open attempt.
local function pack_open(t)
  return struct.pack(OPEN_HEAD, (t.is_spent and SPENT or OPEN) + t.marks, t.attempt, t.ended, t.spent, t.every, t.due,
    math.max(t.till, 0), math.max(t.length, 0)) .. t.entry:sub(t.texts)
end

-- Returns true if the marks of an entry say that its body has a key of its own.
local function is_apart(marks)
  return marks % NOTED == APART
end

-- Returns a score as a deadline, or nil if it is no deadline.
local function deadline_of(score)
  local due = tonumber(score)
  return due and due >= 0 and due <= LATEST and due % 1 == 0 and due or nil
end

-- Returns true if an id has as many bytes as put allows. Whoever may write to the keys may write any other.
local function is_id_right(id)
  return #id >= 1 and #id <= LONGEST_ID
end

-- Returns a body that has a key of its own, or nothing if that is gone, or larger than put allows.
local function body_apart(k, id)
  local body = redis.call('HGET', k[BODY], id)
  return body and #body <= LARGEST_BODY and body or nil
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
-- of a timer that was put into the window of the owner. Returns the last attempt of timers that are gone, too, which is
-- read with it.
local function hint_sender(k, me)
  local owner, till, length, taken, gone = unpack(redis.call('HMGET', k[OWN], 'o', 'u', 'l', 'w', 'a'))
  till, gone = tonumber(till), tonumber(gone) or 0
  if not owner or owner == me or not holds(till, tonumber(length) or till, now_ms()) then return nil, gone end
  taken = tonumber(taken) or LATEST
  return function(id, due)
    if tonumber(due) <= taken then redis.call('PUBLISH', owner, due .. ' ' .. id) end
  end, gone
end

-- Sets a timer aside that cannot be read. A body that is apart stays.
local function set_aside(k, id)
  redis.call('HSET', k[DAMAGED], id, redis.call('HGET', k[TIMER], id) or '')
  redis.call('HDEL', k[TIMER], id)
  redis.call('ZREM', k[DUE], id)
  redis.call('ZREM', k[BEGUN], id)
  redis.call('ZREM', k[DEAD], id)
  if not is_id_right(id) then redis.call('HDEL', k[BODY], id) end
end

-- Removes everything that has an id. Returns whether it waited, had an open attempt, was a dead letter, and was
-- damaged.
local function remove(k, id)
  redis.call('HDEL', k[TIMER], id)
  redis.call('HDEL', k[BODY], id)
  return redis.call('ZREM', k[DUE], id) == 1, redis.call('ZREM', k[BEGUN], id) == 1,
    redis.call('ZREM', k[DEAD], id) == 1, redis.call('HDEL', k[DAMAGED], id) == 1
end

-- Notes attempts of timers that go. A timer that is put begins after the last of them, so what a handler has of an
-- earlier timer of the id is stale. Of two numbers the later one is less than half of them all ahead.
local function note_gone(k, attempts)
  local before = tonumber(redis.call('HGET', k[OWN], 'a')) or 0
  local gone = before
  for _, attempt in ipairs(attempts) do
    local ahead = (attempt - gone) % ATTEMPTS_OF_PUTS
    if ahead < ATTEMPTS_OF_PUTS / 2 then gone = (gone + ahead) % ATTEMPTS_OF_PUTS end
  end
  if gone ~= before then redis.call('HSET', k[OWN], 'a', gone) end
end

-- Returns the first attempt of a timer that replaces another one. Deliveries of the old timer must not end the
-- new one. The last attempt of a damaged timer is unknown: the seconds since 1970 are an upper bound.
local function next_attempt(entry)
  local t = timer_of(entry)
  return (t and t.attempt or math.floor(now_ms() / 1000)) + 1
end

-- Answers of `put`.
local THERE, STORED, IS_DEAD = 0, 1, 2

-- Returns true if a put of a timer that is due at `due` replaces a living one that is due at `old`.
local function replaces(how, due, old)
  if how == 'sooner' then return due < old end
  if how == 'later' then return due > old end
  return how == 'replace'
end

-- Returns whether the id is taken, and THERE or IS_DEAD if the timer that has it is kept.
local function present(k, id, entry, some_damaged, how, due)
  if entry then
    local t = timer_of(entry)
    if not t then return true, how ~= 'replace' and THERE or nil end
    if t.kind == DEAD_LETTER then return true, how ~= 'replace' and IS_DEAD or nil end
    return true, not replaces(how, tonumber(due), t.due) and THERE or nil
  end
  if not some_damaged or redis.call('HEXISTS', k[DAMAGED], id) == 0 then return false end
  return true, how ~= 'replace' and IS_DEAD or nil
end

-- Returns period and plan of a put, whose word is 'PERIOD' or 'PERIOD PLAN'.
local function period_and_plan(word)
  local gap = word:find(' ', 1, true)
  if not gap then return word, '' end
  return word:sub(1, gap - 1), word:sub(gap + 1)
end

-- Keys: all. Arguments: me, how to treat a timer of the same id, and id, due, period and plan, body of each.
-- Answers THERE, STORED or IS_DEAD for each. A damaged timer counts as dead. `verdict` is '' or 'first'.
local function put_with(k, a, verdict)
  local how, ids, results, timers, added, n = a[2], {}, {}, {}, {}, 0
  for i = 3, #a, 4 do ids[(i + 1) / 4] = a[i] end
  local entries, some_damaged, seen = redis.call('HMGET', k[TIMER], unpack(ids)), redis.call('EXISTS', k[DAMAGED]) == 1, {}
  local tell, gone = hint_sender(k, a[1])
  for i, id in ipairs(ids) do
    local entry, due, body, attempt = seen[id] or entries[i], a[4 * i], a[4 * i + 2], gone
    local is_taken, kept = present(k, id, entry, some_damaged, how, due)
    if kept then
      results[i] = kept
    else
      if is_taken then
        attempt = next_attempt(entry)
        remove(k, id)
      end
      local every, plan = period_and_plan(a[4 * i + 1])
      local rest, marks = pack_texts(plan, '', verdict)
      if #body > INLINE then
        redis.call('HSET', k[BODY], id, body)
        marks = marks + APART
      else
        rest = rest .. body
      end
      entry = pack(WAITING + marks, attempt, attempt, 0, every, due, rest)
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

local function put(k, a)
  return put_with(k, a, '')
end

-- Keys: all. Argument: id. Answers 0: unknown id, 1: cancelled, 2: removed, but it had an open attempt, was a
-- dead letter or was damaged.
local function cancel(k, a)
  local t = timer_of(redis.call('HGET', k[TIMER], a[1]))
  if t then note_gone(k, {t.attempt}) end
  local waited, had_begun, was_dead, was_damaged = remove(k, a[1])
  return waited and 1 or (had_begun or was_dead or was_damaged) and 2 or 0
end

-- Returns the word and the text of the way in which a delivery ends. The text is nil if there is none. The ways are
-- '' for done, 'r' for returned, 'x' for removed, 'f REASON' for failed, 'd' or 'd HISTORY' for dead, and 'DUE' or
-- 'DUE HISTORY' for again.
local function word_and_text(how)
  local gap = how:find(' ', 1, true)
  if not gap then return how end
  return how:sub(1, gap - 1), how:sub(gap + 1)
end

-- Returns true if a plan has no clauses, or those of retries and no others: then `done` is the end of its timer.
local function has_only_retries(plan)
  if plan == '' then return true end
  for clause in (plan .. '|'):gmatch('([^|]*)|') do
    local kind = clause:match('^[ \t]*([^ ]*)')
    if kind ~= 'retry' and kind ~= 'attempts' then return false end
  end
  return true
end

-- Returns deadline, history and verdict of a timer after such an end.
local function after_end(word, text, due, every, plan, history, now)
  if word == 'f' then return due, history, 'failed ' .. text:sub(1, LONGEST_REASON) end
  if word ~= '' then return tonumber(word) or due, text or history, '' end
  if plan ~= '' then return due, history, 'done' end
  due = next_beat(due, every, now)
  local from = math.max(due - every, 0)
  return due, string.format('0 0 %.0f+%.0f 0 ', from, due - from), ''
end

-- Returns lists of what ends write, which are empty: entries, places by deadline, ids of deliveries that are over.
local function no_ends()
  return {is_over = {}, timers = {}, waiting = {}, begun = {}, dead = {}, over = {}, gone = {}, attempts = {}, apart = {}}
end

local function push(list, a, b)
  local n = #list
  list[n + 1], list[n + 2] = a, b
end

-- Adds a delivery that is returned. Its timer stays open if an earlier attempt is.
local function give_back(ends, id, t)
  if t.is_spent then t.is_spent, t.spent = false, t.spent - 1 end
  if t.attempt ~= t.ended + 1 then
    t.till, t.length = t.due, of_another(t.length)
    push(ends.timers, id, pack_open(t))
    push(ends.begun, t.due, id)
  else
    push(ends.timers, id, pack(WAITING + t.marks, t.attempt, t.attempt, t.spent, t.every, t.due, t.entry:sub(t.texts)))
    push(ends.waiting, t.due, id)
    push(ends.over, id)
  end
  return 2 + t.due
end

-- Adds a delivery that ends. Returns its answer, and the deadline of a hint to the owner if its timer comes again.
local function end_delivery(ends, now, id, entry, wanted, how)
  local t = timer_of(entry)
  if not t or t.kind ~= OPEN or ends.is_over[id] or t.attempt ~= tonumber(wanted) then return 0 end
  ends.is_over[id] = true
  local word, text = word_and_text(how)
  if word == 'r' then return give_back(ends, id, t) end
  local plan, before = texts_of(t)
  push(ends.over, id)
  if word == 'x' or word == '' and t.every == 0 and has_only_retries(plan) then
    push(ends.gone, id)
    push(ends.attempts, t.attempt)
    if is_apart(t.marks) then push(ends.apart, id) end
    return 1
  end
  local due, history, verdict = after_end(word, text, t.due, t.every, plan, before, now)
  local texts, noted = pack_texts(plan, history, verdict)
  local after, places = WAITING, ends.waiting
  if word == 'd' then after, places = DEAD_LETTER, ends.dead end
  after = after + t.marks % NOTED + noted
  push(ends.timers, id, pack(after, t.attempt, t.attempt, 0, t.every, due, texts .. entry:sub(t.body)))
  push(places, due, id)
  if word == 'd' then return 1 end
  -- The owner takes a hint with the deadline of a delivery for an old one.
  return 2 + due, verdict == '' and due or math.max(now, due + 1)
end

local function write_ends(k, ends)
  local function write(command, key, list)
    if #list > 0 then redis.call(command, key, unpack(list)) end
  end
  write('HSET', k[TIMER], ends.timers)
  write('ZADD', k[BEGUN], ends.begun)
  write('ZREM', k[BEGUN], ends.over)
  write('ZADD', k[DUE], ends.waiting)
  write('ZADD', k[DEAD], ends.dead)
  write('HDEL', k[TIMER], ends.gone)
  write('HDEL', k[BODY], ends.apart)
  if #ends.attempts > 0 then note_gone(k, ends.attempts) end
end

-- Keys: all. Arguments: me, and id, attempt and how, of each. Answers 0 for each attempt that is not the current one, 1
-- for a timer that was removed or is dead, and otherwise 2 + its next deadline.
local function end_deliveries(k, a)
  local ids, results, ends, now, tell, hint = {}, {}, no_ends(), now_ms()
  for i = 2, #a, 3 do ids[(i + 1) / 3] = a[i] end
  for i, entry in ipairs(redis.call('HMGET', k[TIMER], unpack(ids))) do
    results[i], hint = end_delivery(ends, now, ids[i], entry, a[3 * i], a[3 * i + 1])
    if hint and tell == nil then tell = hint_sender(k, a[1]) or false end
    if hint and tell then tell(ids[i], hint) end
  end
  write_ends(k, ends)
  return results
end

-- Keys: all. Arguments: me, id, due. Has a living timer or a dead letter wait for a new deadline. A living timer keeps
-- its history, and its delivery in flight is stale. Answers 1, or 0 if there is none or it cannot be read.
local function wait_anew(k, a, is_dead)
  local id, due = a[2], a[3]
  local t = timer_of(redis.call('HGET', k[TIMER], id))
  if not t or (t.kind == DEAD_LETTER) ~= is_dead then return 0 end
  local plan, history = texts_of(t)
  local attempt = is_dead and t.attempt or t.attempt + 1
  local texts, noted = pack_texts(plan, is_dead and '' or history, '')
  redis.call('HSET', k[TIMER], id,
    pack(WAITING + t.marks % NOTED + noted, attempt, attempt, 0, t.every, due, texts .. t.entry:sub(t.body)))
  redis.call('ZREM', is_dead and k[DEAD] or k[BEGUN], id)
  redis.call('ZADD', k[DUE], due, id)
  local tell = hint_sender(k, a[1])
  if tell then tell(id, due) end
  return 1
end

local function touch(k, a)
  return wait_anew(k, a, false)
end

local function revive(k, a)
  return wait_anew(k, a, true)
end

-- Keys: all. Arguments: id, deadline, attempt, plan, history, body of a dead letter. Stores it, and answers {1}, unless
-- the id is taken: {0}.
local function bury(k, a)
  local id, due, attempt, body = a[1], a[2], a[3], a[6]
  if redis.call('HEXISTS', k[TIMER], id) == 1 or redis.call('HEXISTS', k[DAMAGED], id) == 1 then return {0} end
  local texts, marks = pack_texts(a[4], a[5], '')
  if #body > INLINE then
    redis.call('HSET', k[BODY], id, body)
    body, marks = '', marks + APART
  end
  redis.call('HSET', k[TIMER], id, pack(DEAD_LETTER + marks, attempt, attempt, 0, 0, due, texts .. body))
  redis.call('ZADD', k[DEAD], due, id)
  return {1}
end

-- Keys: all. Arguments: id, attempt, length of the lease from now. Answers {1} if the attempt is the current
-- one, and otherwise {0}.
local function extend(k, a)
  local t = timer_of(redis.call('HGET', k[TIMER], a[1]))
  if not t or t.kind ~= OPEN or t.attempt ~= tonumber(a[2]) then return {0} end
  t.till, t.length = now_ms() + a[3], of_another(tonumber(a[3]))
  redis.call('ZADD', k[BEGUN], t.till, a[1])
  redis.call('HSET', k[TIMER], a[1], pack_open(t))
  return {1}
end

-- Keys: all. Arguments: epoch, and id, attempt of each. Answers false if another process owns the shard.
-- Otherwise 1 for each attempt that is the current one, and 0 for others.
local function spend(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local results = {}
  for i = 2, #a, 2 do
    local t = timer_of(redis.call('HGET', k[TIMER], a[i]))
    local is_current = t and t.kind == OPEN and t.attempt == tonumber(a[i + 1])
    if is_current and not t.is_spent then
      t.is_spent, t.spent = true, t.spent + 1
      redis.call('HSET', k[TIMER], a[i], pack_open(t))
    end
    results[i / 2] = is_current and 1 or 0
  end
  return results
end

-- Answers of `claim`. A granted timer has its entry, and its body behind that if it is apart. EARLY is followed by
-- the time of the claim.
local GONE, EARLY, LATER, BROKEN = '0', '1', '2', '3'

-- Handles an entry that is missing or cannot be read. Returns the answer of `claim`.
local function unreadable(k, id, entry)
  if not entry and not redis.call('ZSCORE', k[DUE], id) and not redis.call('ZSCORE', k[BEGUN], id) then return GONE end
  set_aside(k, id)
  return BROKEN
end

-- Returns true if the last claim was granted since then, and nobody has shown to know of it.
local function is_lost(t, since, now)
  local granted = t.till - t.length
  return t.kind == OPEN and not t.is_spent and t.length % 2 == 0 and granted + 1 >= since and granted <= now
end

-- Returns the time from which on a timer can be claimed.
local function visible_from(t, now)
  return t.kind == OPEN and math.min(t.till, now + t.length) or t.due
end

-- Gives a timer its next attempt, and returns its entry.
local function grant(t, now, till)
  t.attempt, t.is_spent, t.till, t.length = t.attempt + 1, false, till, of_claim(till - now)
  return pack_open(t)
end

-- Returns the shard of an id: FNV-1a with 64 bits, folded, as durable/src/local/hash.hpp. Products stay below 2^53,
-- so they are exact.
local function shard_of(id, shards)
  local word = 4294967296
  local high, low = 3421674724, 2216829733
  for i = 1, #id do
    local last = low % 256
    low = low - last + bit.bxor(last, id:byte(i))
    high = (high * 435 + low * 256 + math.floor(low * 435 / word)) % word
    low = low * 435 % word
  end
  return (high % shards * (word % shards) + bit.bxor(high, low) % word) % shards
end

-- Returns true if a timer that had no end several times has an id of another shard. Its ends go there, and are stale:
-- somebody has put its record here.
local function is_elsewhere(k, id, t)
  if t.attempt - t.ended < 2 then return false end
  local shards = tonumber(redis.call('HGET', k[OWN], 's'))
  return shards and shard_of(id, shards) ~= tonumber(k[OWN]:match(':(%d+)}:own$'))
end

-- Keys: all. Arguments: epoch, length of the lease, claim_ahead, bytes, the time since which claims of these timers had
-- no answer, the last time of the claim, and ids. Answers false if another process owns the shard. Otherwise the time in
-- us, and an answer for each id.
local function claim(k, a)
  if redis.call('HGET', k[OWN], 'e') ~= a[1] then return false end
  local us = now_us()
  local now, lease, since = math.floor(us / 1000), tonumber(a[2]), tonumber(a[5])
  local soon, ids = now + a[3], {unpack(a, 7)}
  local bytes = now > tonumber(a[6]) and 0 or math.max(tonumber(a[4]), 1)
  local entries, result, seen = redis.call('HMGET', k[TIMER], unpack(ids)), {us}, {}
  local closed, leases, timers, c, n = {}, {}, {}, 0, 0
  for i, id in ipairs(ids) do
    local entry = entries[i]
    local t = timer_of(entry)
    local visible = t and visible_from(t, now)
    if t and is_lost(t, since, now) then
      visible, t.attempt = t.due, t.attempt - 1
    end
    if not t or is_elsewhere(k, id, t) then
      result[i + 1] = unreadable(k, id, entry)
    elseif t.kind == DEAD_LETTER or seen[id] then
      result[i + 1] = GONE
    elseif visible > soon then
      result[i + 1] = EARLY .. string.format('%.0f', visible)
    elseif bytes <= 0 then
      result[i + 1] = LATER
    else
      local body = ''
      if is_apart(t.marks) then body = body_apart(k, id) end
      if body then
        if t.kind == WAITING then c = c + 1; closed[c] = id end
        local till = math.max(now, visible) + lease
        local granted = grant(t, now, till)
        leases[n + 1], leases[n + 2] = till, id
        result[i + 1] = granted .. body
        timers[n + 1], timers[n + 2] = id, granted
        n, bytes = n + 2, bytes - (#granted - OPEN_SIZE) - #body
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

-- Sets timers aside whose deadlines or ids cannot be read. Returns their number.
local function set_unreadable_aside(k, got)
  local found = 0
  for i = 2, #got, 2 do
    if not deadline_of(got[i]) or not is_id_right(got[i - 1]) then
      set_aside(k, got[i - 1])
      found = found + 1
    end
  end
  return found
end

-- Keys: all. Arguments: epoch, due and id of a place, last deadline, limit. Answers false if another process owns
-- the shard. Otherwise the time in us, id and due of each timer after the place, and how many were set aside.
local function take(k, a)
  local epoch, taken = unpack(redis.call('HMGET', k[OWN], 'e', 'w'))
  if epoch ~= a[1] then return false end
  local limit, aside, due, begun = tonumber(a[5]), 0
  repeat
    local before = aside
    due, begun = places(k[DUE], a, a[4], limit), places(k[BEGUN], a, a[4], limit)
    aside = aside + set_unreadable_aside(k, due)
    if aside == before then aside = aside + set_unreadable_aside(k, begun) end
  until aside == before
  local result = merged(due, begun, limit)
  local till = #result == 2 * limit and result[#result] or a[4]
  if tonumber(till) > (tonumber(taken) or 0) then redis.call('HSET', k[OWN], 'w', till) end
  return {now_us(), result, aside}
end

-- Shortens leases of claims that end later than their length from now: the clock was set back. Sets aside what cannot be
-- read of those whose leases are not over, which no take sees.
local function shorten(k, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', k[BEGUN], '(' .. now, '+inf')) do
    local t = timer_of(redis.call('HGET', k[TIMER], id))
    if not t or t.kind ~= OPEN or not is_id_right(id) then
      set_aside(k, id)
    elseif t.till - now > t.length then
      t.till, t.length = now + t.length, of_another(t.length)
      redis.call('ZADD', k[BEGUN], t.till, id)
      redis.call('HSET', k[TIMER], id, pack_open(t))
    end
  end
end

-- Entries that one command looks at to restore their places.
local RESTORED_TOGETHER = 5000

-- Gives entries their places again, some at a time, if there are more entries than places: somebody has deleted `due`,
-- `begun` or `dead`.
local function restore_places(k)
  local places = redis.call('ZCARD', k[DUE]) + redis.call('ZCARD', k[BEGUN]) + redis.call('ZCARD', k[DEAD])
  if redis.call('HLEN', k[TIMER]) <= places then return end
  local cursor = redis.call('HGET', k[OWN], 'r') or '0'
  local after, some = unpack(redis.call('HSCAN', k[TIMER], cursor, 'COUNT', RESTORED_TOGETHER))
  for i = 1, #some, 2 do
    local t = timer_of(some[i + 1])
    if not t or not is_id_right(some[i]) then
      set_aside(k, some[i])
    else
      local of = t.kind == OPEN and BEGUN or t.kind == DEAD_LETTER and DEAD or DUE
      redis.call('ZADD', k[of], 'NX', t.kind == OPEN and t.till or t.due, some[i])
    end
  end
  redis.call('HSET', k[OWN], 'r', after)
end

-- Keys: all. Arguments: me, length of the lease, shards of the set. Answers the time in us, and the epoch, which is 0 if
-- another process owns the shard. Restores what somebody has deleted.
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
  redis.call('HSET', k[OWN], 'u', now + lease, 'l', lease, 't', now, 's', a[3], 'v', VERSION)
  restore_places(k)
  return {us, tonumber(epoch)}
end

-- Keys: all. Argument: epoch.
local function release(k, a)
  if redis.call('HGET', k[OWN], 'e') == a[1] then redis.call('HSET', k[OWN], 'u', 0) end
  return 0
end

-- Key: processes, a hash of name -> end and length of the lease. Arguments: me, length of the lease. Answers the
-- time in us, the number of processes, and how many of them have other terms, which stand behind a hyphen.
local function join(k, a)
  local us = now_us()
  local now = math.floor(us / 1000)
  local all, mine, others = redis.call('HGETALL', k[1]), a[1]:match('%-(%x+)$'), 0
  for i = 1, #all, 2 do
    local till, length = all[i + 1]:match('^(%d+) (%d+)$')
    local terms = all[i]:match('%-(%x+)$')
    if not holds(tonumber(till), tonumber(length), now) then
      redis.call('HDEL', k[1], all[i])
    elseif mine and terms and terms ~= mine then
      others = others + 1
    end
  end
  redis.call('HSET', k[1], a[1], (now + a[2]) .. ' ' .. a[2])
  return {us, redis.call('HLEN', k[1]), others}
end

-- Keys: all. Arguments: 'waiting' or 'dead', and ids. Answers id, deadline, period, attempt, ended, spent, body, plan,
-- history and verdict of each timer of that set that can be read.
local function show(k, a)
  local result, n, wants_dead, ids = {}, 0, a[1] == 'dead', {unpack(a, 2)}
  for i, entry in ipairs(redis.call('HMGET', k[TIMER], unpack(ids))) do
    local t, body = timer_of(entry), nil
    if t and (t.kind == DEAD_LETTER) == wants_dead then
      if is_apart(t.marks) then body = body_apart(k, ids[i]) else body = entry:sub(t.body) end
    end
    if body then
      result[n + 1], result[n + 2], result[n + 3], result[n + 4] = ids[i], t.due, t.every, t.attempt
      result[n + 5], result[n + 6], result[n + 7] = t.ended, t.spent, body
      result[n + 8], result[n + 9], result[n + 10] = texts_of(t)
      n = n + 10
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
      local t = timer_of(entry)
      local place = t and {some[i], t.due}
      if t and is_id_right(some[i]) and is_before(after, place) then result[#result + 1] = place end
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
    if due and is_id_right(got[i]) then
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

-- Timers that `oldest` looks at in each sorted set.
local LOOKED_AT = 1000

-- Returns the first member of a sorted set that has the prefix, and its score, up to now. Passes over ids that take
-- sets aside.
local function first_with(key, prefix, now, looked_at)
  local most = looked_at or prefix == '' and 1 or LOOKED_AT
  local some = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
  local first
  for i = 1, #some, 2 do
    if is_id_right(some[i]) then
      first = first or i
      if some[i]:sub(1, #prefix) == prefix then return some[i], deadline_of(some[i + 1]) or 0 end
    end
  end
  if #some == 2 and most == 1 then return first_with(key, prefix, now, LOOKED_AT) end
  if #some == 2 * LOOKED_AT and first then return some[first], deadline_of(some[first + 1]) or 0 end
end

-- Returns how many attempts of a timer had no end, of those whose leases are over.
local function unended(t, now)
  return t.attempt - t.ended - (t.till > now and 1 or 0)
end

-- Returns the place of the first timer with the prefix that is due and of which too many attempts had no end, or nil.
-- One more may be under way. Looks at all with an open attempt.
local function first_unended(k, prefix, most, now)
  local ids, first = {}, nil
  for _, id in ipairs(redis.call('ZRANGE', k[BEGUN], 0, -1)) do
    if id:sub(1, #prefix) == prefix and is_id_right(id) then ids[#ids + 1] = id end
  end
  for from = 1, #ids, LOOKED_AT do
    local some = {unpack(ids, from, math.min(from + LOOKED_AT - 1, #ids))}
    for i, entry in ipairs(redis.call('HMGET', k[TIMER], unpack(some))) do
      local t = timer_of(entry)
      local is_unended = t and t.kind == OPEN and unended(t, now) >= most and t.due <= now
      local place = is_unended and {some[i], t.due}
      if place and (not first or is_before(place, first)) then first = place end
    end
  end
  return first
end

-- Keys: all. Arguments: prefix, and how many attempts without an end make a timer overdue while another is under way.
-- Answers id, deadline and time of the timer that has waited longest since then, and its attempts without an end, or
-- nothing. One without the prefix counts only if there is none with it.
local function oldest(k, a)
  local now, first, first_fits = now_ms(), nil, false
  for _, place in pairs({{first_with(k[DUE], a[1], now)}, {first_with(k[BEGUN], a[1], now)},
    first_unended(k, a[1], tonumber(a[2]), now)}) do
    local fits = place[1] and place[1]:sub(1, #a[1]) == a[1]
    local is_first = not first or fits and not first_fits or fits == first_fits and is_before(place, first)
    if place[1] and is_first then first, first_fits = place, fits end
  end
  if not first then return {} end
  local t = timer_of(redis.call('HGET', k[TIMER], first[1]))
  if not t then return {first[1], first[2], first[2], 0} end
  return {first[1], t.due, first[2], unended(t, now)}
end

-- Keys: all. Answers the numbers of waiting timers, dead letters and damaged timers.
local function count(k)
  local waiting = redis.call('ZCARD', k[DUE]) + redis.call('ZCARD', k[BEGUN])
  return {waiting, redis.call('ZCARD', k[DEAD]), redis.call('HLEN', k[DAMAGED])}
end

-- Key: meta. Argument: shards. Answers the time in us, and the number of shards and the version of the timers on
-- the server, which is 0 for a new set.
local function open(k, a)
  local version, shards = unpack(redis.call('HMGET', k[1], 'version', 'shards'))
  if version and tonumber(version) > VERSION then
    return redis.error_reply('NEWER these timers are of version ' .. version)
  end
  shards, version = shards or a[1], version or 0
  redis.call('HSET', k[1], 'shards', shards)
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
  local marks, rest, entry = 0, body
  if redis.call('HEXISTS', k[TIMER], id) == 1 then
    if is_dead then redis.call('ZREM', k[DEAD], id) end
    return
  end
  if not due then return end
  if #body > INLINE then
    redis.call('HSET', k[BODY], id, body)
    marks, rest = APART, ''
  end
  if is_dead then
    entry = pack(DEAD_LETTER + marks, attempt, ended, attempt - ended, every, due, rest)
  elseif begun then
    till = till or now
    redis.call('ZREM', k[DUE], id)
    redis.call('ZADD', k[BEGUN], till, id)
    local length = math.min(till - now, LONGEST_OLD_LEASE)
    entry = pack_open({attempt = attempt, ended = ended, spent = 0, every = every, due = due, till = till, length = length,
      marks = marks, entry = rest, texts = 1})
  else
    entry = pack(WAITING + marks, attempt, ended, 0, every, due, rest)
  end
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

-- Keys: all, and those of version 1. Argument: shards of the set. Answers 1 if there may be more. Timers of versions
-- 2 to 7 need no upgrade. The shard notes the shards of the set, because a function for one shard in a cluster
-- cannot read meta.
local function upgrade(k, a)
  local is_more = upgrade_some(k, OLD_JOB, OLD_TRY, false) or upgrade_some(k, OLD_DEAD_JOB, OLD_DEAD_TRY, true)
  if not is_more then redis.call('HSET', k[OWN], 's', a[1], 'v', VERSION) end
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

-- The functions for any language. Each is called as FCALL tvec_NAME 1 KEY ARGUMENT... KEY is the name of the set, or
-- in a cluster the tag of a shard, such as {tvec:5}. The answer is a word. An error begins with 'ERR tvec: '.

local function refused(why)
  return redis.error_reply('ERR tvec: ' .. why)
end

-- Returns an argument as an error shows it.
local function quoted(text)
  return "'" .. text:sub(1, 40):gsub('[^%w%p ]', '?') .. "'"
end

-- Returns a check of an argument: it returns nil, or the error.
local function bytes_of(name, least, most)
  return function(text)
    if #text >= least and #text <= most then return end
    return name .. ' has ' .. #text .. ' bytes: expected ' .. least .. ' to ' .. most
  end
end

local function whole(name, least, most, unit)
  return function(text)
    local n = text:match('^%d+$') and #text <= 15 and tonumber(text)
    if n and n >= least and n <= most then return end
    return string.format('%s is %s: expected a whole number from %.0f to %.0f%s', name, quoted(text), least, most, unit)
  end
end

local function any() end

local LONGEST_LEASE = 86400000000
local is_id, is_attempt = bytes_of('id', 1, LONGEST_ID), whole('attempt', 1, 4294967295, '')
local is_due = whole('due', 0, LATEST, ', milliseconds since 1970')
local is_lease = whole('lease_ms', 1, LONGEST_LEASE, ', milliseconds')
local is_body, is_plan = bytes_of('body', 0, LARGEST_BODY), bytes_of('plan', 0, 1000)
local is_period = whole('every', 0, LATEST, ', milliseconds')

local function is_existing(text)
  if text == 'keep' or text == 'replace' or text == 'sooner' or text == 'later' then return end
  return 'existing is ' .. quoted(text) .. ': expected keep, replace, sooner or later'
end

local function keys_of_shard(name, shard)
  local k = {}
  for i, what in ipairs({'due', 'timer', 'begun', 'body', 'own', 'dead', 'damaged'}) do
    k[i] = '{' .. name .. ':' .. string.format('%.0f', shard) .. '}:' .. what
  end
  return k
end

-- Returns name and shard of KEY, or nil and the error.
local function parsed_key(key, id)
  local name, shard = key:match('^{([^{}]+):(%d+)}$')
  if name then return name, tonumber(shard) end
  if key == '' or key:find('[{}]') then
    return nil, 'KEY is ' .. quoted(key) .. ': expected the name of the set, or the tag of a shard such as {tvec:5}'
  end
  local shards = tonumber(redis.call('HGET', '{' .. key .. '}:meta', 'shards'))
  if not shards then
    return nil, 'there is no set ' .. quoted(key) .. ': expected one that a process, or tvec-timers install, has opened'
  end
  return key, shard_of(id, shards)
end

-- Returns the keys of the shard of an id, or nil and the error.
local function shard_keys(key, id)
  local name, shard = parsed_key(key, id)
  if not name then return nil, shard end
  local k = keys_of_shard(name, shard)
  local marks = redis.pcall('HMGET', k[OWN], 's', 'v')
  if marks.err then
    if not marks.err:find('slot') and not marks.err:find('non local') then return nil, marks.err end
    return nil, 'KEY is ' .. quoted(key) .. ': this server is in a cluster, and expects the tag of the shard of the id'
  end
  local shards, version = tonumber(marks[1]), tonumber(marks[2])
  if version ~= VERSION then
    return nil, string.format('shard {%s:%.0f} is of version %s: expected %d, so a process, or tvec-timers install, ' ..
      'has to open the set once', name, shard, version or 'none', VERSION)
  end
  if shard ~= shard_of(id, shards) then
    return nil, string.format('KEY is %s, and the id is in shard %.0f of %.0f: expected {%s:%.0f}', quoted(key),
      shard_of(id, shards), shards, name, shard_of(id, shards))
  end
  return k
end

-- Returns a public function. Checks its first arguments, which are listed as name, check, ... `act` receives the keys
-- of the shard and all arguments, and returns the answer or nil and an error.
local function public(usage, checks, takes_more, act)
  return function(keys, a)
    if #keys ~= 1 or #a < #checks or #a > #checks and not takes_more then
      return refused(string.format('%d keys and %d arguments: expected KEY %s', #keys, #a, usage))
    end
    for i, check in ipairs(checks) do
      local why = check(a[i])
      if why then return refused(why) end
    end
    local k, why = shard_keys(keys[1], a[1])
    if not k then return refused(why) end
    local answer
    answer, why = act(k, a)
    if why then return refused(why) end
    return answer
  end
end

local OPTIONS = {every = is_period, existing = is_existing, plan = is_plan}

-- Returns the options of tvec_put, which are words from a[4] on, or nil and the error.
local function options_of_put(a)
  local o = {every = '0', existing = 'keep', plan = ''}
  for i = 4, #a, 2 do
    local name, value = a[i], a[i + 1]
    local check = OPTIONS[name]
    if not check then return nil, 'option ' .. quoted(name) .. ': expected every, existing or plan' end
    if not value then return nil, 'option ' .. name .. ' has no value: expected one behind it' end
    local why = check(value)
    if why then return nil, why end
    o[name] = value
  end
  return o
end

-- Returns deadline and verdict of a put, or nil and the error. Without a deadline the plan decides it.
local function first_due(due, o)
  if due ~= '' then
    local why = is_due(due)
    if why then return nil, why end
    if tonumber(o.every) > LATEST - due then
      return nil, "every is '" .. o.every .. "': expected a beat before the end of the year 9999"
    end
    return due, ''
  end
  if o.plan == '' then return nil, 'due is empty: expected milliseconds since 1970, or a plan' end
  if o.existing == 'sooner' or o.existing == 'later' then
    return nil, 'due is empty: expected a deadline for existing ' .. o.existing
  end
  return string.format('%.0f', now_ms()), 'first'
end

local PUT_WORDS = {[THERE] = 'there_already', [STORED] = 'stored', [IS_DEAD] = 'dead'}
local CANCEL_WORDS = {[0] = 'unknown_id', 'cancelled', 'had_begun'}
-- The functions have no process of their own, so every owner gets hints.
local NOBODY = ''

local function public_put(k, a)
  local o, why = options_of_put(a)
  if not o then return nil, why end
  local due, verdict = first_due(a[2], o)
  if not due then return nil, verdict end
  local every = o.plan == '' and o.every or o.every .. ' ' .. o.plan
  return PUT_WORDS[put_with(k, {NOBODY, o.existing, a[1], due, every, a[3]}, verdict)[1]]
end

local function public_cancel(k, a)
  return CANCEL_WORDS[cancel(k, a)]
end

local function public_touch(k, a)
  return touch(k, {NOBODY, a[1], a[2]}) == 1 and 'touched' or 'unknown_id'
end

local FOUND = {'id', 'due', 'every', 'attempt', 'ended', 'spent', 'body', 'plan', 'history', 'verdict'}

local function public_find(k, a)
  local shown, result = show(k, {'waiting', a[1]}), {}
  if #shown == 0 then return false end
  for i, name in ipairs(FOUND) do result[2 * i - 1], result[2 * i] = name, shown[i] end
  return result
end

-- Ends a delivery in a way of `end_deliveries`.
local function end_one(k, a, how)
  return end_deliveries(k, {NOBODY, a[1], a[2], how})[1] == 0 and 'stale' or 'ok'
end

local function public_done(k, a)
  return end_one(k, a, '')
end

local function public_again(k, a)
  return end_one(k, a, a[3])
end

local function public_failed(k, a)
  return end_one(k, a, 'f ' .. a[3])
end

local function public_extend(k, a)
  return extend(k, a)[1] == 1 and 'ok' or 'stale'
end

local function register(name, callback, ...)
  redis.register_function({function_name = 'tvec_' .. name, callback = callback, flags = {...}})
end

local function register_version(name, callback, ...)
  register('durable_' .. VERSION .. '_' .. name, callback, ...)
end

local function register_public(name, usage, checks, takes_more, act, ...)
  register(name, public(usage, checks, takes_more, act), ...)
end

-- A server that is out of memory refuses new timers. Everything else works.
register_version('put', put)
register_version('revive', revive)
register_version('cancel', cancel, 'allow-oom')
register_version('end', end_deliveries, 'allow-oom')
register_version('bury', bury, 'allow-oom')
register_version('touch', touch, 'allow-oom')
register_version('extend', extend, 'allow-oom')
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
register_version('oldest', oldest, 'no-writes')
register_version('count', count, 'no-writes')
register('durable_version', version, 'no-writes')

register_public('put', 'id due body [every MS] [existing keep|replace|sooner|later] [plan TEXT]',
  {is_id, any, is_body}, true, public_put)
register_public('cancel', 'id', {is_id}, false, public_cancel, 'allow-oom')
register_public('touch', 'id due', {is_id, is_due}, false, public_touch, 'allow-oom')
register_public('find', 'id', {is_id}, false, public_find, 'no-writes')
register_public('done', 'id attempt', {is_id, is_attempt}, false, public_done, 'allow-oom')
register_public('again', 'id attempt due', {is_id, is_attempt, is_due}, false, public_again, 'allow-oom')
register_public('failed', 'id attempt reason', {is_id, is_attempt, any}, false, public_failed, 'allow-oom')
register_public('extend', 'id attempt lease_ms', {is_id, is_attempt, is_lease}, false, public_extend, 'allow-oom')
register('version', version, 'no-writes')
