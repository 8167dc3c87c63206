// The script that a stream sink runs on its server.
#pragma once

namespace timers_tool {

// The first line of the script, on a server with memory and on one that is at its limit.
constexpr const char* with_memory = "#!lua\n";
constexpr const char* without_memory = "#!lua flags=allow-oom\n";

// Key: the stream. First argument: what to do.
constexpr const char* stream_script = R"lua(
local key, what = KEYS[1], ARGV[1]

-- Returns a table of names and values that follow each other in a list.
local function named(list)
  local t = {}
  for i = 1, #list, 2 do t[list[i]] = list[i + 1] end
  return t
end

-- Returns the group, by the names of XINFO, or nil.
local function group()
  if redis.call('EXISTS', key) == 0 then return end
  for _, fields in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local g = named(fields)
    if g.name == 'workers' then return g end
  end
end

-- Makes a group that was lost. Nobody can take the entries of its stream: they are removed, and
-- their timers come again when their leases end.
local function made()
  if redis.call('EXISTS', key) == 1 then redis.call('XTRIM', key, 'MAXLEN', 0) end
  redis.call('XGROUP', 'CREATE', key, 'workers', '$', 'MKSTREAM')
  return group()
end

-- Returns how many deliveries wait for a worker or are with one. An entry that was acknowledged may
-- still be in the stream.
local function there()
  local g, entries = group(), redis.call('XLEN', key)
  return g.lag and math.min(entries, g.pending + g.lag) or entries
end

-- Arguments: bytes that the stream may have before, or 0 for any; id, attempt, deadline and body of
-- each delivery. Answers how many are there, and 0 if there was no room, else 1 and the entries.
local function put()
  local room = tonumber(ARGV[2])
  if room > 0 and redis.call('MEMORY', 'USAGE', key) > room then return {there(), 0} end
  local answer = {0, 1}
  for i = 3, #ARGV, 4 do
    answer[#answer + 1] = redis.call('XADD', key, '*', 'id', ARGV[i], 'attempt', ARGV[i + 1],
      'due', ARGV[i + 2], 'body', ARGV[i + 3])
  end
  answer[1] = there()
  return answer
end

-- Removes deliveries that a worker has had for a lease: their timers come again.
local function remove_abandoned(lease)
  local over = redis.call('XPENDING', key, 'workers', 'IDLE', lease, '-', '+', 1000)
  if #over == 0 then return end
  for i, entry in ipairs(over) do over[i] = entry[1] end
  redis.call('XACK', key, 'workers', unpack(over))
  redis.call('XDEL', key, unpack(over))
end

-- Removes consumers that have no delivery and were idle for ten leases: their workers are gone. A
-- consumer that reads again is made anew.
local function remove_consumers(lease)
  for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', key, 'workers')) do
    local c = named(fields)
    if c.pending == 0 and c.idle > 10 * lease then
      redis.call('XGROUP', 'DELCONSUMER', key, 'workers', c.name)
    end
  end
end

-- Removes entries that were acknowledged and not deleted, before the first that is with a worker.
local function remove_acknowledged(last)
  local first = redis.call('XPENDING', key, 'workers')[2]
  if not first then
    local ms, n = last:match('^(%d+)-(%d+)$')
    first = ms .. '-' .. string.format('%.0f', n + 1)
  end
  redis.call('XTRIM', key, 'MINID', '=', first)
end

-- Argument: the lease. Answers how many deliveries are there, and the last entry that a worker has
-- taken.
local function look(g)
  local last = g['last-delivered-id']
  remove_abandoned(ARGV[2])
  remove_acknowledged(last)
  return {there(), last}
end

local function is_after(a, b)
  local x, m = a:match('^(%d+)-(%d+)$')
  local y, n = b:match('^(%d+)-(%d+)$')
  if x ~= y then return tonumber(x) > tonumber(y) end
  return tonumber(m) > tonumber(n)
end

-- Arguments: the lease, an entry, and how many to look at behind it. Answers the last of these, or
-- '' at the end, and entry, id, attempt, deadline of each delivery that is not ended, and 1 if a
-- worker has it.
local function show(g)
  local page, shown = redis.call('XRANGE', key, '(' .. ARGV[3], '+', 'COUNT', ARGV[4]), {''}
  if ARGV[3] == '0-0' then remove_consumers(ARGV[2]) end
  for _, entry in ipairs(page) do
    local number, d = entry[1], named(entry[2])
    local is_new = is_after(number, g['last-delivered-id'])
    local is_taken = not is_new and #redis.call('XPENDING', key, 'workers', number, number, 1) == 1
    local is_delivery = d.id and (d.attempt or ''):find('^%d+$') and (d.due or ''):find('^%d+$')
    if is_delivery and (is_new or is_taken) then
      local n = #shown
      shown[n + 1], shown[n + 2], shown[n + 3], shown[n + 4] = number, d.id, d.attempt, d.due
      shown[n + 5] = is_taken and 1 or 0
    end
  end
  if #page == tonumber(ARGV[4]) then shown[1] = page[#page][1] end
  return shown
end

local g = group() or made()
if what == 'put' then return put() end
return what == 'look' and look(g) or show(g)
)lua";

}  // namespace timers_tool
