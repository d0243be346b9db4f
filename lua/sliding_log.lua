-- sliding_log: never more than `limit` grants in any window.
--
-- KEYS[1]  list of the grants' times, oldest first, in microseconds of this server's clock
-- ARGV[1]  limit, from 1
-- ARGV[2]  window, microseconds
-- ARGV[3]  time to live of the key, milliseconds
--
-- Returns { wait, remaining, next, reset }, times in microseconds from now:
--   wait       0 where it is granted, else until it would be
--   remaining  units left
--   next       until one more unit is there
--   reset      until all are
--
-- A grant at t counts while t > now - window. Only grants are stored. What no longer counts is
-- found by galloping from the oldest end and cut off in one piece, so that a check's work grows
-- with neither the live nor (but for a logarithm) the expired entries.

local call, key = redis.call, KEYS[1]
local limit, window, time_to_live = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local horizon = now - window -- an entry that is not later does not count

local newest = tonumber(call('LINDEX', key, '-1'))
if not newest or newest <= horizon then
    if newest then call('UNLINK', key) end
    call('RPUSH', key, string.format('%d', now))
    call('PEXPIRE', key, time_to_live)
    return { 0, limit - 1, now - horizon, now - horizon }
end

local oldest = tonumber(call('LINDEX', key, '0'))
if oldest <= horizon then
    local expired, live = 0, 1 -- positions; the newest entry is live, so both loops end
    local entry = tonumber(call('LINDEX', key, '1'))
    while entry and entry <= horizon do
        expired, live = live, live * 2
        entry = tonumber(call('LINDEX', key, live))
    end
    while live - expired > 1 do
        local middle = math.floor((expired + live) / 2)
        entry = tonumber(call('LINDEX', key, middle))
        if entry and entry <= horizon then expired = middle else live = middle end
    end
    call('LTRIM', key, live, '-1')
    oldest = tonumber(call('LINDEX', key, '0'))
end

local length = call('LLEN', key)
if length >= limit then
    -- where the limit was lowered, more than one entry has to go first
    local blocking = length == limit and oldest or tonumber(call('LINDEX', key, -limit))
    return { blocking - horizon, 0, blocking - horizon, newest - horizon }
end

if newest > now then
    -- the clock stepped back: the list stays in order, and the key outlives its entries
    time_to_live = string.format('%d', time_to_live + math.ceil((newest - now) / 1000))
else
    newest = now
end
call('RPUSH', key, string.format('%d', newest))
call('PEXPIRE', key, time_to_live)
return { 0, limit - length - 1, oldest - horizon, newest - horizon }
