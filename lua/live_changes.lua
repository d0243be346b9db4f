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
-- is no more; and name and record of each change. A record may be nil that was lost.

local call = redis.call
local time = call('TIME')
local log, data, zone = KEYS[2], KEYS[3], ARGV[3]
local names = call('ZRANGEBYSCORE', log, '(' .. ARGV[1], '+inf', 'LIMIT', 0, ARGV[2])
local reply = {time[1] * 1000000 + time[2], call('GET', KEYS[1]), false}
if #names == tonumber(ARGV[2]) then
    reply[3] = string.format('%.0f', call('ZSCORE', log, names[#names]))
end
local wanted = {}
for _, name in ipairs(names) do
    if zone == '' or string.match(name, '^%a+ (%S+)') == zone then
        wanted[#wanted + 1] = name
    end
end
if #wanted > 0 then
    for i, record in ipairs(call('HMGET', data, unpack(wanted))) do
        reply[#reply + 1] = wanted[i]
        reply[#reply + 1] = record
    end
end
return reply
