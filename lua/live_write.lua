-- Writes one record of what operators have set, and gives it a version that no record had before, so
-- that hosts can ask for what is new to them: live_changes.lua.
--
-- KEYS[1]  string: `<epoch> <version> <floor>`, the head. A store has the epoch in which it was made,
--          the last version, and the version up to which records may have been purged
-- KEYS[2]  sorted set: the log, names of records by their versions
-- KEYS[3]  hash: the records, `<version> <expires at> <action> <limit> <burst> <updated at> <by> <note>`,
--          in which `-` stands for none. One that was written back has a ninth word: the version as
--          which it was written first, see live_restore.lua
-- KEYS[4]  sorted set: names of records by the time at which they may be purged
-- ARGV[1]  the record's name: see src/redis_client/control/live_store.hpp
-- ARGV[2]  its action: numbers, ban or exempt of an override, deleted of what was an override, reset
--          of a client
-- ARGV[3]  limit and burst, with a space between them
-- ARGV[4]  how long it holds; 0: for ever, or as long as hosts need to hear of it
-- ARGV[5]  who writes it, and a note, with a space between them
-- ARGV[6]  the epoch of a store that this makes: 16 random hex digits
-- ARGV[7]  `<epoch> <version>`, the last that the writer's host knows of a store. What is written is
--          newer than that, also in a store that has lost it and whose clock is behind
--
-- Times are microseconds. Returns the time; the record's version, 0 if there was no override to be
-- deleted; and when it expires, or 0. An override that is not there is deleted as well: a host may
-- know it and would write it back.

local most_purged = 100
local hour = 3600000000
-- Longer than it expires an override is named, so that hosts that come back from another Redis can
-- tell what was purged here from what was lost.
local minute = 60000000
local head, log, data, expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, action = ARGV[1], ARGV[2]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function whole(number)
    return string.format('%.0f', number)
end

local epoch, version, floor = string.match(call('GET', head) or '', '^0*(%x+) (%d+) (%d+)$')
local was_there = true
if action == 'deleted' then
    local record = call('HGET', data, name)
    local expires_at, was = string.match(record or '', '^%d+ (%S+) (%a+)')
    if not epoch and not record and not call('ZSCORE', log, name) then
        return {now, 0, 0}
    end
    -- It may have expired, by a clock that may step back.
    was_there = was and was ~= action and (tonumber(expires_at) or now + 1) > now
end

local known_epoch, known = string.match(ARGV[7], '^0*(%x+) (%d+)$')
if not epoch then
    epoch, floor = ARGV[6], 0
    version = call('ZRANGE', log, 0, 0, 'REV', 'WITHSCORES')[2] or 0
elseif epoch == known_epoch then
    version = math.max(version, known)
end
for _, old in ipairs(call('ZRANGEBYSCORE', expiry, '-inf', whole(now), 'LIMIT', 0, most_purged)) do
    floor = math.max(floor, call('ZSCORE', log, old) or 0)
    call('ZREM', log, old)
    call('HDEL', data, old)
    call('ZREM', expiry, old)
end

version = math.max(now, version + 1)
local expires_at = ARGV[4] == '0' and 0 or now + ARGV[4]
local is_override = action ~= 'deleted' and action ~= 'reset'
call('ZADD', log, whole(version), name)
call('HSET', data, name, table.concat({whole(version), expires_at > 0 and whole(expires_at) or '-', action,
    ARGV[3], whole(now), ARGV[5]}, ' '))
if not is_override then
    call('ZADD', expiry, whole(now + hour), name)
elseif expires_at > 0 then
    call('ZADD', expiry, whole(expires_at + minute), name)
else
    call('ZREM', expiry, name)
end
call('SET', head, table.concat({epoch, whole(version), whole(floor)}, ' '))
return {now, was_there and version or 0, expires_at}
