-- What requests turned out to cost, of many requests in one call, all by one algorithm. One that
-- fails, as on a key of another type, takes no other with it.
--
-- What was taken too much is given back by the file's refund. What was taken too little is charged
-- whether the rule grants it or not: by the file's check, and its debt, or else its charge.
--
-- KEYS  one of each settlement
-- ARGV  those of the first one, of the second, and so on
--
-- Returns a digit for each: 1 if it was done, 0 if it failed.

local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function settle(PARAMETERS)
-- rules
end
local results = {}
for i, key in ipairs(KEYS) do
    results[i] = pcall(settle, key, unpack(ARGV, (i - 1) * ARGUMENT_COUNT + 1, i * ARGUMENT_COUNT))
        and '1' or '0'
end
return table.concat(results)
