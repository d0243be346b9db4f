-- fixed_window: at most `limit` units in a window that starts with the key's first unit, or, where
-- windows are aligned, at a multiple of its length in Unix time.
--
-- The end is part of the state, for a key's expiry is no clock.
--
-- KEYS[1]  two numbers, 8 bytes each: the window's end, and the units taken in it
-- ARGV[1]  limit
-- ARGV[2]  cost
-- ARGV[3]  window
-- ARGV[4]  time to live of the key, milliseconds
-- ARGV[5]  "aligned" or "first"
--
-- REPLY[1]  units left after this request; below 0: so many are missing
-- REPLY[2]  time left of the window

local state = call('GET', KEYS[1])
local window_end, taken = 0, 0
if state and #state == 16 then -- anything else is not ours, or another version's: it counts as none
    window_end, taken = unpack_state('<dd', state)
end
-- Where the clock stepped back before the window, it goes on. A time beyond 2^53 is no state of ours.
if not (now < window_end and window_end < 9007199254740992) then
    window_end, taken = now + ARGV[3], 0
    if ARGV[5] == 'aligned' then
        window_end = window_end - now % ARGV[3]
    end
end
local left = ARGV[1] - ARGV[2] - taken
local fits = left >= 0

-- charge

if granted and fits and ARGV[2] ~= '0' then
    if taken > 0 then
        call('SETRANGE', KEYS[1], '8', pack('<d', taken + ARGV[2])) -- its expiry stays
    else
        call('SET', KEYS[1], pack('<dd', window_end, ARGV[2]), 'PX', ARGV[4])
    end
end
REPLY[1], REPLY[2] = left, window_end - now

-- lease
-- ARGV[6]  the longest time for which units are leased
-- WANTED   units to lease
--
-- REPLY[3]  units leased: at most an eighth of what is left
-- REPLY[4]  for how long they can be used
-- REPLY[5]  time until the window's end, which a return refers to

local leased = 0
if granted and fits then
    leased = math.min(WANTED, math.floor(left / 8))
end
if leased > 0 then
    taken = taken + ARGV[2]
    if taken > 0 then
        call('SETRANGE', KEYS[1], '8', pack('<d', taken + leased)) -- its expiry stays
    else
        call('SET', KEYS[1], pack('<dd', window_end, leased), 'PX', ARGV[4])
    end
end
local left_of_window = window_end - now
REPLY[3], REPLY[4], REPLY[5] = leased, math.min(ARGV[6], left_of_window), left_of_window

-- refund
-- ARGV[1]  cost
-- ARGV[2]  the end of the window that was charged

local state = call('GET', KEYS[1])
if state and #state == 16 then
    local window_end, taken = unpack_state('<dd', state)
    if window_end == tonumber(ARGV[2]) then
        if taken > tonumber(ARGV[1]) then
            call('SETRANGE', KEYS[1], '8', pack('<d', taken - ARGV[1])) -- its expiry stays
        else
            call('DEL', KEYS[1]) -- the first unit begins a window
        end
    end
end
