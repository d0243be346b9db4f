-- What Redis gives a script.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
