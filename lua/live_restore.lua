-- Writes records back that a store has lost: a failover, or a restart from an older snapshot, may have
-- cost it the newest. They get versions that come after all others, as whatever is new to hosts:
-- live_changes.lua.
--
-- KEYS     as those of live_write.lua
-- ARGV[1]  the epoch of the store that has lost them
-- ARGV[2]  and so on: for each record its name, the version as which it was written first, and its eight
--          words but for the version
--
-- A record is written only where the store has none of its name that was written later, and where it
-- cannot have purged it. So of hosts that know records of one name the newest one counts, whoever comes
-- first. Returns how many were written; nil if the store is another one.

local call = redis.call
local head, log, data, expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local minute, hour = 60000000, 3600000000 -- as in live_write.lua

local function whole(number)
    return string.format('%.0f', number)
end

local epoch, version, floor = string.match(call('GET', head) or '', '^0*(%x+) (%d+) (%d+)$')
if epoch ~= ARGV[1] then
    return false
end

-- What nobody of ours wrote counts as newer: somebody has to look at it.
local function written_as(record)
    local last, first = string.match(record, '^(%d+) %S+ %a+ %S+ %S+ %S+ %S+ %S+ ?(%d*)$')
    return tonumber(first) or tonumber(last) or math.huge
end

local written = 0
for i = 2, #ARGV, 3 do
    local name, first, words = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
    local record = call('HGET', data, name)
    if first > (record and written_as(record) or tonumber(floor)) then
        version = math.max(version + 1, first)
        call('ZADD', log, whole(version), name)
        call('HSET', data, name, whole(version) .. ' ' .. words .. (version > first and ' ' .. whole(first) or ''))
        local expires_at, action, updated_at = string.match(words, '^(%S+) (%a+) %S+ %S+ (%d+)')
        local is_override = action ~= 'deleted' and action ~= 'reset'
        local purged_at = is_override and (tonumber(expires_at) or math.huge) + minute or updated_at + hour
        if purged_at < math.huge then
            -- Other hosts have to hear of it, however old it is.
            call('ZADD', expiry, whole(math.max(purged_at, now + minute)), name)
        else
            call('ZREM', expiry, name)
        end
        written = written + 1
    end
end
if written > 0 then
    call('SET', head, table.concat({epoch, whole(version), floor}, ' '))
end
return written
