-- sliding_window: two aligned windows, the previous one weighted by how much of it a window that
-- ends now still overlaps: previous * (T - elapsed) / T + current + cost <= limit.
--
-- What was charged before a window's count began, and is returned afterwards, was charged to a counter
-- that an operator has deleted meanwhile. So each count has a fraction as its mark: what had passed of
-- its window when it began, in 4194304ths. Versions that know of no marks count the fraction, too, and
-- then grant a unit less.
--
-- KEYS[1]  three numbers, 8 bytes each: the current window's start, the units taken in it, and
--          those of the window before, both with their marks
-- ARGV[1]  limit
-- ARGV[2]  cost
-- ARGV[3]  window
-- ARGV[4]  time to live of the key, milliseconds
--
-- REPLY[1]  units then taken in the window before; where the rule denies, so many below -1
-- REPLY[2]  units then taken in the current window
-- REPLY[3]  time since its start; negative where the clock stepped back before it

local window = tonumber(ARGV[3])
local start, current, previous = now - now % window, 0, 0 -- units with their marks
local is_stored = false -- as the current one
local state = call('GET', KEYS[1])
if state and #state == 24 then -- anything else is not ours, or another version's: it counts as none
    local stored, of_current, of_previous = unpack_state('<ddd', state)
    if stored >= start and stored < 9007199254740992 then
        start, current, previous, is_stored = stored, of_current, of_previous, true
    elseif stored == start - window then
        previous = of_current
    end
end
local elapsed = now - start
local mark = is_stored and current % 1 or math.floor(elapsed / window * 4194304) / 4194304
local mark_of_previous = previous % 1
current, previous = current - current % 1, previous - mark_of_previous
local overlap = elapsed > 0 and window - elapsed or window
local fits
do -- Lua has room for 200 names, and a check may have twelve rules
    local free = ARGV[1] - ARGV[2] - current
    local weighted, room = previous * overlap, free * window
    fits = weighted <= room
    if weighted >= 9007199254740992 and room >= 9007199254740992 then
        -- both beyond 2^53, where products are rounded: compared again digit by digit
        local function digits(x, y) -- of x * y to the base 2^15, where x < 2^31 and y < 2^45
            local low = x * (y % 32768)
            local middle = x * (math.floor(y / 32768) % 32768) + math.floor(low / 32768)
            local high = x * math.floor(y / 1073741824) + math.floor(middle / 32768)
            return high, middle % 32768, low % 32768
        end
        local high, middle, low = digits(previous, overlap)
        local room_high, room_middle, room_low = digits(free, window)
        if high ~= room_high then
            fits = high < room_high
        elseif middle ~= room_middle then
            fits = middle < room_middle
        else
            fits = low <= room_low
        end
    end
end

-- charge

if granted and fits and ARGV[2] ~= '0' then
    current = current + ARGV[2]
    if is_stored then
        call('SETRANGE', KEYS[1], '8', pack('<d', current + mark)) -- its expiry stays
    else
        call('SET', KEYS[1], pack('<ddd', start, current + mark, previous + mark_of_previous), 'PX', ARGV[4])
    end
end
REPLY[1], REPLY[2], REPLY[3] = fits and previous or -1 - previous, current, elapsed

-- lease
-- ARGV[5]  the longest time for which units are leased
-- WANTED   units to lease
--
-- REPLY[4]  units leased: at most an eighth of what is left
-- REPLY[5]  for how long they can be used
-- REPLY[6]  time until the moment that a return refers to: that of the charge, or, where the clock
--           stepped back before the window, its last one

local leased = 0
if granted and fits then
    -- what rounding may do to the quotient is far less than an eighth
    leased = math.min(WANTED, math.floor((ARGV[1] - current - previous * (overlap / window)) / 8))
end
if leased > 0 then
    if is_stored or ARGV[2] ~= '0' then
        call('SETRANGE', KEYS[1], '8', pack('<d', current + leased + mark)) -- its expiry stays
    else
        call('SET', KEYS[1], pack('<ddd', start, leased + mark, previous + mark_of_previous), 'PX', ARGV[4])
    end
end
REPLY[4], REPLY[5] = math.max(leased, 0), math.min(ARGV[5], overlap)
REPLY[6] = elapsed < 0 and window - 1 - elapsed or 0

-- refund
-- ARGV[1]  cost
-- ARGV[2]  window
-- ARGV[3]  a moment of the window that was charged, that of the charge

local state = call('GET', KEYS[1])
if state and #state == 24 then
    local start, current, previous = unpack_state('<ddd', state)
    local window, since_start = tonumber(ARGV[2]), ARGV[3] - start
    local mark, mark_of_previous = current % 1, previous % 1
    if since_start >= math.floor(mark * window) and since_start < window then
        current = math.max(current - ARGV[1], mark)
    elseif since_start < 0 and since_start + window >= math.floor(mark_of_previous * window) then
        previous = math.max(previous - ARGV[1], mark_of_previous)
    end
    call('SETRANGE', KEYS[1], '0', pack('<ddd', start, current, previous)) -- its expiry stays
end
