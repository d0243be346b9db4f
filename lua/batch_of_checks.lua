-- What stands around the rules of many checks in one call: each is all or nothing by itself, and one
-- that fails, as on a key of another type, takes no other with it. The rules' files are put together
-- as in one_check.lua, but that a rule's KEYS[1] and WANTED are parameters.
--
-- KEYS  those of the first check, of the second, and so on
-- ARGV  those of one check: all checks of a batch have the same. Then the WANTED of each
--
-- Returns the answers, one after another. That of a check that failed has the time -1; what Redis
-- said of the last one that did, cut at 400 bytes, stands behind them all.

local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function check(PARAMETERS)
local granted = true
-- rules
return pack(REPLY_FORMAT, now, REPLY)
end
local answers, failure = {}, ''
for i = 1, #KEYS, KEY_COUNT do
    local is_done, answer = pcall(check, ARGUMENTS_OF_CHECK)
    if not is_done then
        failure = string.sub(tostring(type(answer) == 'table' and answer.err or answer), 1, 400)
        answer = string.rep('\255', ANSWER_SIZE)
    end
    answers[#answers + 1] = answer
end
return table.concat(answers) .. failure
