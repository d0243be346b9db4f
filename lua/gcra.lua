-- gcra and token_bucket: one unit each T/N, and so many at once as the capacity allows.
--
-- The state is the time at which all units are there again, the "theoretical arrival time" of the
-- cell rate algorithm. A unit moves it on by T/N, the interval; it may lie ahead by capacity
-- intervals at most. A token bucket of the same capacity decides the same. Times are exact: whole
-- microseconds and a fraction in D-ths of one, where D is the least that makes T/N such a number.
--
-- KEYS[1]     "<microseconds>" or "<microseconds> <fraction>"
-- ARGV[1..2]  interval: microseconds, fraction
-- ARGV[3..4]  capacity times the interval: microseconds, fraction
-- ARGV[5]     D
-- ARGV[6]     time to live of the key, milliseconds
--
-- Returns { granted, ahead, fraction }: 1 or 0, and how far the state then lies ahead.

local call, key = redis.call, KEYS[1]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local arrival, fraction = now, 0
local state = call('GET', key)
if state then
    local whole, part = tonumber(state), 0
    if not whole then
        whole, part = string.match(state, '^(%d+) (%d+)$')
        whole, part = tonumber(whole), tonumber(part)
        if part >= tonumber(ARGV[5]) then whole, part = whole + 1, 0 end -- of another D
    end
    if whole >= now then arrival, fraction = whole, part end
end

local next_arrival, next_fraction = arrival + ARGV[1], fraction
if ARGV[5] ~= '1' then
    next_fraction = fraction + ARGV[2]
    if next_fraction >= tonumber(ARGV[5]) then
        next_arrival, next_fraction = next_arrival + 1, next_fraction - ARGV[5]
    end
end
local latest = now + ARGV[3]
if next_arrival > latest or next_arrival == latest and next_fraction > tonumber(ARGV[4]) then
    return { 0, arrival - now, fraction }
end

if next_fraction == 0 then
    state = string.format('%d', next_arrival)
else
    state = string.format('%d %d', next_arrival, next_fraction)
end
call('SET', key, state, 'PX', ARGV[6])
return { 1, next_arrival - now, next_fraction }
