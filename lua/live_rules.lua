-- Lists the counters of rules that hosts have configured for a zone, page by page, and forgets those that
-- no host has registered for so long that nothing of them counts any more.
--
-- KEYS[1]  hash: `<zone> <algorithm>:<window>[:<name>] <shards>`, and the time when a host has
--          registered it last, microseconds. A window is so many milliseconds, or one of a calendar,
--          `month-15@Europe/Berlin`; these have a hash of their own
-- ARGV[1]  the zone; empty: no field is wanted, and this only forgets
-- ARGV[2]  how long a registration counts beyond the window, microseconds
-- ARGV[3]  where to go on, 0 at first
-- ARGV[4]  how many fields to look at, roughly: so many that Redis is not held up
--
-- Returns where to go on, 0 if there is no more, and the fields of the zone. Over all pages each field that
-- was there all the time is named once at least.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local page = redis.call('HSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
local fields = page[2]
local longest_days = {day = 2, week = 8, month = 32, quarter = 93, year = 367}
local reply = {page[1]}
for i = 1, #fields, 2 do
    local zone, window = string.match(fields[i], '^(%S+) [^:]+:(%w+)')
    local milliseconds = tonumber(window) or longest_days[window] and longest_days[window] * 86400000
    local registered = tonumber(fields[i + 1])
    if not milliseconds or not registered or registered + milliseconds * 1000 + ARGV[2] < now then
        redis.call('HDEL', KEYS[1], fields[i])
    elseif zone == ARGV[1] then
        reply[#reply + 1] = fields[i]
    end
end
return reply
