-- sliding_window: two aligned windows, the previous one weighted by how much of it a window that
-- ends now still overlaps: previous * (T - elapsed) / T + current + cost <= limit.
--
-- KEYS[1]  three numbers, 8 bytes each: the current window's start, the units taken in it, and
--          those of the window before
-- ARGV[1]  limit
-- ARGV[2]  cost
-- ARGV[3]  window
-- ARGV[4]  time to live of the key, milliseconds
--
-- REPLY[1]  units then taken in the window before; where the rule denies, so many below -1
-- REPLY[2]  units then taken in the current window
-- REPLY[3]  time since its start; negative where the clock stepped back before it

local window = tonumber(ARGV[3])
local start, current, previous = now - now % window, 0, 0
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
local overlap = elapsed > 0 and window - elapsed or window
local free = ARGV[1] - ARGV[2] - current
local weighted, room = previous * overlap, free * window
local fits = weighted <= room
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

-- charge

if granted and fits and ARGV[2] ~= '0' then
    current = current + ARGV[2]
    if is_stored then
        call('SETRANGE', KEYS[1], '8', pack('<d', current)) -- its expiry stays
    else
        call('SET', KEYS[1], pack('<ddd', start, current, previous), 'PX', ARGV[4])
    end
end
REPLY[1], REPLY[2], REPLY[3] = fits and previous or -1 - previous, current, elapsed

-- lease
-- ARGV[5]  the longest time for which units are leased
-- WANTED   units to lease
--
-- REPLY[4]  units leased: at most an eighth of what is left
-- REPLY[5]  for how long they can be used
-- REPLY[6]  time until the window's start, which a return refers to: it is not positive

local leased = 0
if granted and fits then
    -- what rounding may do to the quotient is far less than an eighth
    leased = math.min(WANTED, math.floor((ARGV[1] - current - previous * (overlap / window)) / 8))
end
if leased > 0 then
    if is_stored or ARGV[2] ~= '0' then
        call('SETRANGE', KEYS[1], '8', pack('<d', current + leased)) -- its expiry stays
    else
        call('SET', KEYS[1], pack('<ddd', start, leased, previous), 'PX', ARGV[4])
    end
end
REPLY[4], REPLY[5], REPLY[6] = math.max(leased, 0), math.min(ARGV[5], overlap), -elapsed

-- refund
-- ARGV[1]  cost
-- ARGV[2]  window
-- ARGV[3]  the start of the window that was charged

local state = call('GET', KEYS[1])
if state and #state == 24 then
    local start, current, previous = unpack_state('<ddd', state)
    if start == tonumber(ARGV[3]) then
        current = math.max(current - ARGV[1], 0)
    elseif start == ARGV[3] + ARGV[2] then
        previous = math.max(previous - ARGV[1], 0)
    end
    call('SETRANGE', KEYS[1], '0', pack('<ddd', start, current, previous)) -- its expiry stays
end
