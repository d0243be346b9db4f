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

-- Products of four numbers below 2^53 that may themselves be above it: a * b > c * d.
local function is_more(a, b, c, d)
    local function digits(x, y) -- of x * y to the base 2^15, where x < 2^31 and y < 2^45
        local low = x * (y % 32768)
        local middle = x * (math.floor(y / 32768) % 32768) + math.floor(low / 32768)
        local high = x * math.floor(y / 1073741824) + math.floor(middle / 32768)
        return high, middle % 32768, low % 32768
    end
    local high, middle, low = digits(a, b)
    local other_high, other_middle, other_low = digits(c, d)
    if high ~= other_high then return high > other_high end
    if middle ~= other_middle then return middle > other_middle end
    return low > other_low
end

local free = limit - current - 1
if free < 0 or previous > 0 and is_more(previous, overlap, free, window) then
    return { 0, previous, current, elapsed }
end
current = current + 1
if elapsed < 0 then
    time_to_live = string.format('%d', time_to_live + math.ceil(-elapsed / 1000))
end
call('SET', key, string.format('%016d%d %d', start, current, previous), 'PX', time_to_live)
return { 1, previous, current, elapsed }
