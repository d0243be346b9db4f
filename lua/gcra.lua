-- gcra, token_bucket and leaky_bucket: one unit each T/N, and so many at once as the capacity
-- allows.
--
-- The state is the time at which all units are there again, the "theoretical arrival time" of the
-- cell rate algorithm. A unit moves it on by T/N, the interval; it may lie ahead by capacity
-- intervals at most. A token bucket of the same capacity decides the same. Times are exact: whole
-- microseconds and a fraction in D-ths of one, where D is the least that makes T/N such a number.
--
-- KEYS[1]     three numbers, 8 bytes each: the time, its fraction, and the D of that
-- ARGV[1..2]  cost times the interval: microseconds, fraction
-- ARGV[3..4]  capacity times the interval: microseconds, fraction
-- ARGV[5]     D
-- ARGV[6]     time to live of the key, milliseconds
--
-- REPLY[1]  how far the state then lies ahead; where the rule denies, that much below -1
-- REPLY[2]  its fraction

local arrival, fraction = now, 0
local state = call('GET', KEYS[1])
if state then
    local whole, part, parts = unpack_state('<ddd', state)
    if part > 0 and parts ~= tonumber(ARGV[5]) then
        whole, part = whole + 1, 0 -- the limit has changed: rounded, against the client
    end
    if whole >= now then
        arrival, fraction = whole, part
    end
end
local next_arrival, next_fraction = arrival + ARGV[1], fraction
if ARGV[5] ~= '1' then
    next_fraction = fraction + ARGV[2]
    if next_fraction >= tonumber(ARGV[5]) then
        next_arrival, next_fraction = next_arrival + 1, next_fraction - ARGV[5]
    end
end
local room = now + ARGV[3] - next_arrival
local fits = room > 0 or room == 0 and next_fraction <= tonumber(ARGV[4])

-- charge

if granted and fits then
    if next_arrival > arrival or next_fraction > fraction then
        call('SET', KEYS[1], pack('<ddd', next_arrival, next_fraction, ARGV[5]), 'PX', ARGV[6])
    end
    arrival, fraction = next_arrival, next_fraction
end
REPLY[1], REPLY[2] = fits and arrival - now or now - arrival - 1, fraction

-- refund
-- ARGV[1..2]  cost times the interval: microseconds, fraction
-- ARGV[3]     D
-- ARGV[4]     the state to which the charge led, whole microseconds
--
-- What has come back of itself since the charge is not given a second time.

local state = call('GET', KEYS[1])
local still_taken = ARGV[4] - now
if state and still_taken > 0 then
    local arrival, fraction, parts = unpack_state('<ddd', state)
    arrival = arrival - math.min(still_taken, ARGV[1])
    if still_taken > tonumber(ARGV[1]) and parts == tonumber(ARGV[3]) then
        fraction = fraction - ARGV[2]
        if fraction < 0 then
            arrival, fraction = arrival - 1, fraction + parts
        end
    end
    call('SETRANGE', KEYS[1], '0', pack('<ddd', arrival, fraction, parts)) -- its expiry stays
end
