-- What stands around the rules of a check. A rule's file is cut at its "-- charge", "-- lease",
-- "-- debt" and "-- refund" lines, and the parts are put together so that each rule sees its own names:
--
--     check of rule 1; granted = granted and fits
--     do
--         check of rule 2; granted = granted and fits
--         do ... end
--         charge of rule 2
--     end
--     charge of rule 1; lease of rule 1, if it may lease
--
-- A check reads, and sets `fits`: whether the rule, by itself, grants. When the first charge is
-- made, all rules have been checked, and `granted` says whether all grant; a dry run takes no part
-- in `granted`. A charge writes if `granted and fits`, and sets the REPLY of its rule. In the parts
-- of rule i, KEYS[1] becomes KEYS[i], and ARGV[n] and REPLY[n] those that follow the ones of the
-- rules before it. WANTED, the units that a rule is to lease, differs from check to check: they stand
-- behind all other arguments. block.lua follows the check of a rule that blocks, and is numbered as a
-- rule of its own.
--
-- Times are microseconds. Returns `now` and all REPLY numbers, each as 8 bytes, the lowest first:
-- a string costs Redis a third of an array of integers.

local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local granted = true
-- rules
return pack(REPLY_FORMAT, now, REPLY)
