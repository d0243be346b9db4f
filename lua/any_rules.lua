-- One check of any rules, for checks that have no script made for just their rules: a request may
-- leave out some rules of its location, and a script for each way to do so would fill Redis. This one
-- costs Redis more for each check, but there is only one of it.
--
-- Each file of an algorithm becomes a function: its check part decides `fits`, and returns its charge
-- part as a function to be called when all rules have been checked. In it KEYS[1] becomes a
-- parameter, ARGV[n] becomes ARGV[argument + n], and REPLY[n] becomes replies[reply + n].
--
-- block.lua becomes such a function, too. It stands behind the rule that blocks, as a rule of its own,
-- and reads the `fits` of that one.
--
-- KEYS     the rules' keys
-- ARGV[1]  a letter for each rule, that of its function; a capital letter if the rule is in dry run,
--          which takes no part in `granted`
-- ARGV     then those of each rule, one after another
--
-- Returns what a script made for the rules returns: see one_check.lua.

local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local granted = true
local replies, rules, charges = {}, {}, {}
local fits
-- rules
local argument, reply = 1, 0
for i, key in ipairs(KEYS) do
    local letter = string.sub(ARGV[1], i, i)
    local rule = rules[string.lower(letter)]
    fits, charges[i] = rule.check(key, argument, reply)
    granted = granted and (fits or string.upper(letter) == letter)
    argument, reply = argument + rule.arguments, reply + rule.replies
end
for _, charge in ipairs(charges) do
    charge()
end
return pack('<i8' .. string.rep('i8', reply), now, unpack(replies, 1, reply))
