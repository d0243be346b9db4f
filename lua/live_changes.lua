-- Lists what has changed since a version: the records of live_write.lua, by ascending versions.
--
-- KEYS[1]  the head
-- KEYS[2]  the log
-- KEYS[3]  the records
-- ARGV[1]  the version
-- ARGV[2]  how many names of the log to look at, at most: so many that Redis is not held up
-- ARGV[3]  a zone whose records alone are wanted; empty: all zones
--
-- Returns the time, microseconds; the head, nil without one; the version to go on from, nil if there
-- is no more; 1 if the store is complete, else 0; and name and record of each change. A record is nil
-- that was lost. What is too long to be ours counts as lost, so that nobody's text keeps hosts from the
-- others.

local longest_head, longest_name, longest_record = 64, 512, 1024
local call = redis.call
local time = call('TIME')
local log, data, zone = KEYS[2], KEYS[3], ARGV[3]

-- Every record has a name in the log, and the last write has left one. If Redis has evicted one of the
-- keys, this no longer holds.
local head = call('GET', KEYS[1])
local count = call('ZCARD', log)
local is_readable = not head or #head <= longest_head and string.match(head, '^%x+ %d+ %d+$') ~= nil
local is_complete = is_readable and count == call('HLEN', data) and (count > 0) == (head ~= false)

local names = call('ZRANGEBYSCORE', log, '(' .. ARGV[1], '+inf', 'LIMIT', 0, ARGV[2])
local reply = {time[1] * 1000000 + time[2], is_readable and head, false, is_complete and 1 or 0}
if #names == tonumber(ARGV[2]) then
    reply[3] = string.format('%.0f', call('ZSCORE', log, names[#names]))
end
local wanted = {}
for _, name in ipairs(names) do
    if #name <= longest_name and (zone == '' or string.match(name, '^%a+ (%S+)') == zone) then
        wanted[#wanted + 1] = name
    end
end
if #wanted > 0 then
    for i, record in ipairs(call('HMGET', data, unpack(wanted))) do
        reply[#reply + 1] = wanted[i]
        reply[#reply + 1] = record and #record <= longest_record and record
    end
end
return reply
