-- What Redis gives a script.
std = "lua51"
read_globals = { "redis", "struct", "KEYS", "ARGV" }

-- What lua/one_check.lua gives a rule's file; each part of one is a script of its own.
files["lua"] = {
    read_globals = { "WANTED" },
    globals = { "now", "granted", "call", "pack", "unpack_state", "REPLY", "REPLY_FORMAT" },
    ignore = { "411", "421" }, -- so they may use the same names
}
files["lua/block.lua"] = { read_globals = { "fits" } } -- of the rule before it
files["lua/one_check.lua"] = { ignore = { "211" } } -- what the rules use
files["lua/batch_of_checks.lua"] = {
    globals = { "PARAMETERS", "KEY_COUNT", "ARGUMENTS_OF_CHECK", "ANSWER_SIZE", "REPLY", "REPLY_FORMAT" },
    ignore = { "211", "212", "213" },
}
files["lua/settlements.lua"] = { read_globals = { "PARAMETERS", "KEY_COUNT", "ARGUMENT_COUNT", "ARGUMENTS" }, ignore = { "211", "212" } }
files["lua/any_rules.lua"] = { ignore = { "211", "241", "331" } } -- the rules use and set them
files["t/bench/keys.lua"] = {
    read_globals = { "wrk" },
    globals = { "init", "request", "done" }, -- which wrk calls
}
files["t/soak/mix.lua"] = {
    read_globals = { "wrk" },
    globals = { "init", "request", "delay" },
}
files["t/bench/empty_check.lua"] = { globals = { "REPLY" }, ignore = { "211" } }
