-- Looks up records of live_write.lua by their names.
--
-- KEYS[1]  the records
-- ARGV     names
--
-- Returns the time, microseconds, and the record of each name, nil where there is none.

local time = redis.call('TIME')
local reply = redis.call('HMGET', KEYS[1], unpack(ARGV))
table.insert(reply, 1, time[1] * 1000000 + time[2])
return reply
