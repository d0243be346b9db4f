-- fixed_window: at most `limit` units in a window that starts with the key's first unit, or, where
-- windows are aligned, at a multiple of its length in Unix time.
--
-- The start is part of the state, for a key's expiry is no clock.
--
-- KEYS[1]  the window's start in microseconds, 16 digits, and the units taken in it
-- ARGV[1]  limit, from 1
-- ARGV[2]  window, microseconds
-- ARGV[3]  time to live of the key, milliseconds
-- ARGV[4]  "aligned" or "first"
--
-- Returns { granted, taken, left }: 1 or 0, the units then taken in the window, and the
-- microseconds that are left of it.

local call, key = redis.call, KEYS[1]
local window, time_to_live = tonumber(ARGV[2]), ARGV[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local start, taken
local state = call('GET', key)
if state then
    start = tonumber(string.sub(state, 1, 16))
    -- a window of the future is kept: the clock stepped back
    if now < start + window then taken = tonumber(string.sub(state, 17)) end
end
if not taken then
    start, taken = ARGV[4] == 'aligned' and now - now % window or now, 0
    state = string.format('%016d', start)
end

if taken >= tonumber(ARGV[1]) then
    return { 0, taken, start + window - now }
end
taken = taken + 1
if start > now then
    time_to_live = string.format('%d', time_to_live + math.ceil((start - now) / 1000))
end
call('SET', key, string.sub(state, 1, 16) .. taken, 'PX', time_to_live)
return { 1, taken, start + window - now }
