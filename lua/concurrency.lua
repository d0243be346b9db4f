-- concurrency: at most `limit` units in the hands of requests in flight.
--
-- A request takes its units in one permit and gives it back when it ends. The permit of a request that
-- cannot falls free after the window; those of longer requests are renewed.
--
-- KEYS[1]  sorted set: the permits, "<id> <units>", by the time at which they fall free; before them
--          "", whose score is the sum of their units, below 0
-- ARGV[1]  limit
-- ARGV[2]  cost
-- ARGV[3]  window
-- ARGV[4]  time to live of the key, milliseconds
-- ARGV[5]  the request's permit
--
-- REPLY[1]  units left after this request; below 0: so many are missing

local first = call('ZRANGE', KEYS[1], '0', '1', 'WITHSCORES')
local is_foreign = first[1] and first[1] ~= '' -- not ours, or another version's: it counts as none
local taken = is_foreign and 0 or -(tonumber(first[2]) or 0)
local has_free = not is_foreign and first[4] and tonumber(first[4]) <= now
if has_free then
    local free = call('ZRANGEBYSCORE', KEYS[1], '0', string.format('%d', now))
    for _, permit in ipairs(free) do
        taken = taken - string.match(permit, '%d+$')
    end
end
local left = ARGV[1] - ARGV[2] - taken
local fits = left >= 0

-- charge

if granted and fits and ARGV[2] ~= '0' then
    if is_foreign then
        call('UNLINK', KEYS[1])
    elseif has_free then
        call('ZREMRANGEBYSCORE', KEYS[1], '0', string.format('%d', now))
    end
    call('ZADD', KEYS[1], string.format('%d', -taken - ARGV[2]), '',
        string.format('%d', now + ARGV[3]), ARGV[5])
    call('PEXPIRE', KEYS[1], ARGV[4])
end
REPLY[1] = left

-- refund
-- ARGV[1]  the permit

if call('ZREM', KEYS[1], ARGV[1]) == 1 then
    if call('ZCARD', KEYS[1]) == 1 then
        call('DEL', KEYS[1])
    else
        call('ZINCRBY', KEYS[1], string.match(ARGV[1], '%d+$'), '')
    end
end

-- renew
-- KEYS             of as many permits
-- ARGV[3 * i - 2]  the window
-- ARGV[3 * i - 1]  time to live of the key, milliseconds
-- ARGV[3 * i]      the permit; one that has been given to others meanwhile is left alone
--
-- A key that fails, as one of another type, takes no other with it.

local failure
for i, key in ipairs(KEYS) do
    local window, time_to_live, permit = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
    local renewed = redis.pcall('ZADD', key, 'XX', string.format('%d', now + window), permit)
    if type(renewed) == 'table' then
        failure = renewed
    else
        call('PEXPIRE', key, time_to_live)
    end
end
return failure
