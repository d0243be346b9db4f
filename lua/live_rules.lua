-- Lists the counters of rules that hosts have configured for a zone, and forgets those that no host
-- has registered for so long that nothing of them counts any more.
--
-- KEYS[1]  hash: `<zone> <algorithm>:<window, milliseconds>[:<name>] <shards>`, and the time when a
--          host has registered it last, microseconds
-- ARGV[1]  the zone
-- ARGV[2]  how long a registration counts beyond the window, microseconds
--
-- Returns the fields of the zone.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fields = redis.call('HGETALL', KEYS[1])
local reply = {}
for i = 1, #fields, 2 do
    local zone, window = string.match(fields[i], '^(%S+) [^:]+:(%d+)')
    local registered = tonumber(fields[i + 1])
    if not zone or not registered or registered + window * 1000 + ARGV[2] < now then
        redis.call('HDEL', KEYS[1], fields[i])
    elseif zone == ARGV[1] then
        reply[#reply + 1] = fields[i]
    end
end
return reply
