-- fixed_window: at most `limit` units in a window that starts with the key's first unit, or, where
-- windows are aligned, at a multiple of its length in Unix time, or where a calendar says so.
--
-- The end is part of the state, for a key's expiry is no clock. So is when the count began, for what
-- was charged before, and is returned afterwards, was charged to a counter that an operator has deleted
-- meanwhile. Windows that are not aligned begin with their count. Of aligned ones the end is kept with
-- a mark added to it: the time from the window's start to its first unit, in steps of 64 us, or of a
-- 4194304th of the window where that is longer, and a half, which tells that there is a mark. So the number
-- is later than the end by a 64th of the window at most. Versions that know of no marks take it for the
-- end.
--
-- A host sends where the windows of a calendar are: the one that its own clock is in, and one before and
-- after that, for its clock may be wrong. Redis's clock says which of them it is; if it is in none of them,
-- the host and Redis do not mean the same time, and nothing is decided. Such windows have different
-- lengths, so that the time of the first unit is kept as it is, and the key's expiry follows from the end.
-- A host whose tz data are others finds a window that another one has begun: it stays until its end.
--
-- KEYS[1]  two numbers, 8 bytes each: the window's end with its mark, and the units taken in it; of a
--          calendar three: the window's end, the units, and when the count began
-- ARGV[1]  limit
-- ARGV[2]  cost
-- ARGV[3]  window
-- ARGV[4]  time to live of the key, milliseconds; unused with a calendar
-- ARGV[5]  "aligned" or "first"; of a calendar four numbers, 8 bytes each: the beginning of the first
--          window and the ends of all three
--
-- REPLY[1]  units left after this request; below 0: so many are missing
-- REPLY[2]  time left of the window

local state = call('GET', KEYS[1])
local window_end, marked_end, taken, calendar_end = 0, 0, 0, nil
if #ARGV[5] == 32 then
    local begin, first, second, third = unpack_state('<dddd', ARGV[5])
    if now < begin or now >= third then
        error('no window that the host knows at ' .. string.format('%d', now))
    end
    calendar_end = now < first and first or now < second and second or third
    if state and #state == 24 then
        window_end, taken = unpack_state('<dd', state)
    end
elseif state and #state == 16 then -- anything else is not ours, or another version's: it counts as none
    marked_end, taken = unpack_state('<dd', state)
    window_end = marked_end
    if marked_end % 1 > 0 then
        window_end = marked_end - marked_end % ARGV[3]
    end
end
-- Where the clock stepped back before the window, it goes on. A time beyond 2^53 is no state of ours.
if not (now < window_end and window_end < 9007199254740992) then
    window_end, taken = calendar_end or now + ARGV[3], 0
    marked_end = window_end
    if ARGV[5] == 'aligned' then
        local elapsed = now % ARGV[3]
        window_end = window_end - elapsed
        marked_end = window_end
        if now < 4000000000000000 then -- in the year 2112 numbers have no halves any more
            marked_end = window_end + math.floor(elapsed / math.max(64, ARGV[3] / 4194304)) + 0.5
        end
    end
end
local left = ARGV[1] - ARGV[2] - taken
local fits = left >= 0

-- charge

if granted and fits and ARGV[2] ~= '0' then
    if taken > 0 then
        call('SETRANGE', KEYS[1], '8', pack('<d', taken + ARGV[2])) -- its expiry stays
    elseif calendar_end then
        local left_ms = math.ceil((window_end - now) / 1000)
        call('SET', KEYS[1], pack('<ddd', window_end, ARGV[2], now), 'PX', left_ms + 5001)
    else
        call('SET', KEYS[1], pack('<dd', marked_end, ARGV[2]), 'PX', ARGV[4])
    end
end
REPLY[1], REPLY[2] = left, window_end - now

-- lease
-- ARGV[6]  the longest time for which units are leased
-- WANTED   units to lease
--
-- REPLY[3]  units leased: at most an eighth of what is left
-- REPLY[4]  for how long they can be used
-- REPLY[5]  time until the moment that a return refers to: that of the charge, or, where the clock
--           stepped back before the window, its last one

local leased = 0
if granted and fits then
    leased = math.min(WANTED, math.floor(left / 8))
end
if leased > 0 then
    taken = taken + ARGV[2]
    if taken > 0 then
        call('SETRANGE', KEYS[1], '8', pack('<d', taken + leased)) -- its expiry stays
    elseif calendar_end then
        local left_ms = math.ceil((window_end - now) / 1000)
        call('SET', KEYS[1], pack('<ddd', window_end, leased, now), 'PX', left_ms + 5001)
    else
        call('SET', KEYS[1], pack('<dd', marked_end, leased), 'PX', ARGV[4])
    end
end
local left_of_window = window_end - now
REPLY[3], REPLY[4] = leased, math.min(ARGV[6], left_of_window)
local is_before = left_of_window > tonumber(ARGV[3])
if calendar_end then
    is_before = window_end > calendar_end
end
REPLY[5] = is_before and left_of_window - 1 or 0

-- refund
-- ARGV[1]  cost
-- ARGV[2]  window
-- ARGV[3]  a moment of the window that was charged, that of the charge

local state = call('GET', KEYS[1])
if state and (#state == 16 or #state == 24) then
    local window_end, taken = unpack_state('<dd', state)
    local begun = window_end - ARGV[2] -- when the count did
    if #state == 24 then
        begun = unpack_state('<d', state, 17)
    elseif window_end % 1 > 0 then
        local mark = window_end % ARGV[2]
        window_end = window_end - mark
        begun = window_end - ARGV[2] + math.floor((mark - 0.5) * math.max(64, ARGV[2] / 4194304))
    end
    if tonumber(ARGV[3]) >= begun and tonumber(ARGV[3]) < window_end then
        if taken > tonumber(ARGV[1]) then
            call('SETRANGE', KEYS[1], '8', pack('<d', taken - ARGV[1])) -- its expiry stays
        else
            call('DEL', KEYS[1]) -- the first unit begins a window
        end
    end
end
