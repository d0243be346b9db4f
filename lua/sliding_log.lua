-- sliding_log: never more than `limit` units in any window.
--
-- KEYS[1]  list of the units' times, oldest first
-- ARGV[1]  limit
-- ARGV[2]  cost, to 1000
-- ARGV[3]  window
-- ARGV[4]  time to live of the key, milliseconds: an eighth of the window longer than its state
--
-- REPLY[1]  units left after this request; below 0: so many are missing
-- REPLY[2]  time until one more unit is there
-- REPLY[3]  until all are
-- REPLY[4]  where the rule denies, until it would grant
--
-- A unit of time t counts while t > now - window. Only what was granted is stored. What no longer
-- counts is found by galloping from the oldest end and cut off in one piece, so that a check's work
-- grows with neither the live nor (but for a logarithm) the expired entries. It is cut off after the
-- new entries were pushed, for a list without entries is no key: while a cluster moves the hash slot to
-- another node, a script must not write to a key that is not there.
--
-- The key lives until its last entry, the furthest one, no longer counts, and for an eighth of the
-- window and 5 s more.

local horizon = now - ARGV[3] -- an entry that is not later does not count
local length, expired = 0, 0
local oldest, last = now, call('LINDEX', KEYS[1], '-1')
local newest = tonumber(last)
if newest and newest > horizon then
    oldest = tonumber(call('LINDEX', KEYS[1], '0'))
    if not oldest then
        newest = nil
    elseif oldest <= horizon then
        local live = 1 -- positions; the newest entry is live, so both loops end
        local entry = tonumber(call('LINDEX', KEYS[1], '1'))
        while entry and entry <= horizon do
            expired, live = live, live * 2
            entry = tonumber(call('LINDEX', KEYS[1], live))
        end
        while live - expired > 1 do
            local middle = math.floor((expired + live) / 2)
            entry = tonumber(call('LINDEX', KEYS[1], middle))
            if entry and entry <= horizon then expired = middle else live = middle end
        end
        expired = live -- as a number of entries
        oldest = tonumber(call('LINDEX', KEYS[1], live))
    end
    length = newest and call('LLEN', KEYS[1]) - expired or 0
else
    newest = nil
end
if last and not newest then
    expired, oldest = -1, now -- all of them: none counts any more, or they are not ours
end
local left = ARGV[1] - ARGV[2] - length
local fits = left >= 0
local wait = 0
if not fits then
    local missing = -left -- so many of the oldest have to go
    if missing == 1 then
        wait = oldest - horizon
    elseif missing <= length then
        wait = tonumber(call('LINDEX', KEYS[1], missing - length - 1)) - horizon
    end
    -- the limit was lowered, or units above it were charged: for one unit, too, several go
    if missing > tonumber(ARGV[2]) and ARGV[1] ~= '0' then
        oldest = tonumber(call('LINDEX', KEYS[1], '-' .. ARGV[1]))
    end
end

-- charge

if granted and fits and ARGV[2] ~= '0' then
    -- the expiry is put off once in an eighth of the window, for so much longer
    local is_due = not newest or newest < now - now % (ARGV[3] / 8)
    if not newest or newest <= now then -- else units are leased, or the clock stepped back: the list
        newest = now                    -- stays in order
    end
    local entry = string.format('%d', newest)
    if ARGV[2] == '1' then
        call('RPUSH', KEYS[1], entry)
    else
        local entries = {}
        for i = 1, ARGV[2] do entries[i] = entry end
        call('RPUSH', KEYS[1], unpack(entries))
    end
    if expired ~= 0 then
        call('LTRIM', KEYS[1], expired > 0 and expired or -ARGV[2], '-1')
        expired = 0
    end
    if is_due then
        call('PEXPIRE', KEYS[1], ARGV[4])
    end
end
newest = newest or horizon
if newest == horizon then oldest = horizon end
REPLY[1], REPLY[2], REPLY[3], REPLY[4] = left, oldest - horizon, newest - horizon, wait

-- lease
-- ARGV[5]  the longest time for which units are leased, at most a quarter of the window
-- WANTED   units to lease
--
-- REPLY[5]  units leased: at most an eighth of what is left, and at most 1000
-- REPLY[6]  for how long they can be used
-- REPLY[7]  time until that of their entries, which a return refers to
--
-- They are written as if they were taken at the lease's end. So each window has them that has a unit
-- granted of them. Until then no check puts the key's expiry off, so it is put off for so much longer,
-- also where debts or the clock led further ahead than a lease does.

local leased, lease_end = 0, now + ARGV[5]
if granted and fits then
    leased = math.min(WANTED, math.floor(left / 8), 1000)
end
if newest > lease_end then
    lease_end = newest
end
if leased > 0 then
    local entry, entries = string.format('%d', lease_end), {}
    for i = 1, leased do entries[i] = entry end
    call('RPUSH', KEYS[1], unpack(entries))
    if expired ~= 0 then -- the charge has cut nothing off, for the cost is 0
        call('LTRIM', KEYS[1], expired > 0 and expired or -leased, '-1')
    end
    call('PEXPIRE', KEYS[1], ARGV[4] + math.ceil((lease_end - now) / 1000))
end
REPLY[5], REPLY[6], REPLY[7] = leased, tonumber(ARGV[5]), lease_end - now

-- debt
--
-- Units above the limit count a window after the unit that stands `limit` places before them, so
-- that they are worked off as fast as the rule grants, to 3653 days ahead.

local limit, window, furthest = tonumber(ARGV[1]), tonumber(ARGV[3]), now + 315619200000000
local first = length + 1 - limit -- the place of the unit that stands so far before the first one
local from, to = math.max(first, 1), math.min(first + ARGV[2] - 1, length)
local known = from <= to and call('LRANGE', KEYS[1], expired + from - 1, expired + to - 1) or {}
local entry, entries = math.max(newest or now, now), {}
for i = 1, ARGV[2] do
    local place = first + i - 1
    local before = place > length and entries[place - length] or known[place - from + 1]
    if before then
        entry = math.max(entry, math.min(before + window, furthest))
    end
    entries[i] = string.format('%d', entry)
end
call('RPUSH', KEYS[1], unpack(entries))
if expired ~= 0 then
    call('LTRIM', KEYS[1], expired > 0 and expired or -ARGV[2], '-1')
end
call('PEXPIRE', KEYS[1], ARGV[4] + math.ceil((entry - now) / 1000))

-- refund
-- ARGV[1]  cost
-- ARGV[2]  window
-- ARGV[3]  the time of the entries
--
-- Entries that no longer count are at the far end of the list, where it takes long to find them.

if now - ARGV[2] < tonumber(ARGV[3]) then
    call('LREM', KEYS[1], '-' .. ARGV[1], ARGV[3])
end
