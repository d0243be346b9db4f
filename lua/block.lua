-- block: a client that a rule denies is denied by it for a time from then on.
--
-- This stands behind the check of its rule, and reads the rule's `fits`. A denial while a block lasts
-- does not prolong it. A block begins behind all checks: one that fails leaves no block, as it leaves
-- no charge.
--
-- KEYS[1]  two numbers, 8 bytes each: when the block began, and when it ends. There is none: no block
-- ARGV[1]  for how long a denial blocks, milliseconds; 0: this check begins no block
--
-- REPLY[1]  time left of the block; 0: the client is not blocked
--
-- The end is part of the state, for a key's expiry is no clock: the key lives 5 s longer.

REPLY[1] = 0
local begins_block = not fits
do
    local state = call('GET', KEYS[1])
    if state and #state == 16 then -- anything else is not ours, or another version's: it counts as none
        local begun, ends = unpack_state('<dd', state)
        if now < ends and ends < 9007199254740992 then
            -- Where the clock stepped back before the block, the block begins anew: nobody has to wait
            -- until the clock is there again.
            REPLY[1], begins_block = ends - now, now < begun
        end
    end
    begins_block = begins_block and ARGV[1] ~= '0'
    if begins_block then
        REPLY[1] = ARGV[1] * 1000
    end
end
granted = granted and REPLY[1] == 0

-- charge

if begins_block then
    call('SET', KEYS[1], pack('<dd', now, now + REPLY[1]), 'PX', ARGV[1] + 5001)
end
