-- sliding_window: two aligned windows, the previous one weighted by how much of it a window that
-- ends now still overlaps: previous * (T - elapsed) / T + current + 1 <= limit.
--
-- KEYS[1]  the current window's start in microseconds, 16 digits, the units taken in it, a space,
--          and those of the window before
-- ARGV[1]  limit, from 1
-- ARGV[2]  window, microseconds
-- ARGV[3]  time to live of the key, milliseconds
--
-- Returns { granted, previous, current, elapsed }: 1 or 0, the units then taken in both windows,
-- and the microseconds since the current one's start; negative where the clock stepped back
-- before it.

local call, key = redis.call, KEYS[1]
local limit, window, time_to_live = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local start, previous, current = now - now % window, 0, 0
local state = call('GET', key)
if state then
    local stored = tonumber(string.sub(state, 1, 16))
    local of_current, of_previous = string.match(state, '^(%d+) (%d+)$', 17)
    if stored >= start then
        start, previous, current = stored, tonumber(of_previous), tonumber(of_current)
    elseif stored == start - window then
        previous = tonumber(of_current)
    end
end
local elapsed = now - start
local overlap = elapsed > 0 and window - elapsed or window

local free = limit - current - 1
local weighted, room = previous * overlap, free * window
local is_full = weighted > room
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
        is_full = high > room_high
    elseif middle ~= room_middle then
        is_full = middle > room_middle
    else
        is_full = low > room_low
    end
end

if is_full then
    return { 0, previous, current, elapsed }
end
current = current + 1
if elapsed < 0 then
    time_to_live = string.format('%d', time_to_live + math.ceil(-elapsed / 1000))
end
call('SET', key, string.format('%016d%d %d', start, current, previous), 'PX', time_to_live)
return { 1, previous, current, elapsed }
