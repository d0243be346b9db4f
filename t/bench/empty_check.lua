-- In the place of lua/bucket.lua: a check of the same keys, arguments and reply that does nothing. What
-- it costs is what any script costs that is asked through the module: the least that a check can.

-- How many keys and arguments a script has is read off those that it names.
local fits = KEYS[1] ~= ARGV[6]

-- charge

REPLY[1], REPLY[2], REPLY[3] = 0, 0, 0
