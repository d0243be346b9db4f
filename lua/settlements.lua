-- What requests turned out to cost, of many requests in one call, all by one algorithm. One that
-- fails, as on a key of another type, takes no other with it.
--
-- What was taken too much is given back by the file's refund. What was taken too little is charged
-- whether the rule grants it or not: by the file's check, and its debt, or else its charge.
--
-- KEYS  those of the first settlement, of the second, and so on: mostly one of each
-- ARGV  those of the first one, of the second, and so on
--
-- Returns a digit for each: 1 if it was done, 0 if it failed. What Redis said of the last one that
-- failed, cut at 400 bytes, stands behind them.

local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local keys, arguments, key_count, begun = KEYS, ARGV, KEY_COUNT, 0
local count = #keys / key_count
local function settle_the_rest() -- a pcall for each would cost a tenth more
    for i = begun + 1, count do
        begun = i
        local key_at, at = (i - 1) * key_count, (i - 1) * ARGUMENT_COUNT
        local PARAMETERS = ARGUMENTS
-- rules
    end
end
local results, failure = string.rep('1', count), ''
repeat
    local is_done, problem = pcall(settle_the_rest)
    if not is_done then
        failure = string.sub(tostring(type(problem) == 'table' and problem.err or problem), 1, 400)
        results = string.sub(results, 1, begun - 1) .. '0' .. string.sub(results, begun + 1)
    end
until is_done
return results .. failure
