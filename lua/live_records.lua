-- Looks up records of live_write.lua by their names.
--
-- KEYS[1]  the records
-- ARGV     names
--
-- Returns the time, microseconds, and the record of each name, nil where there is none, or one that is
-- too long to be ours.

local longest_record = 1024
local time = redis.call('TIME')
local reply = {time[1] * 1000000 + time[2]}
for i, record in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV))) do
    reply[i + 1] = record and #record <= longest_record and record
end
return reply
