-- gcra, token_bucket and leaky_bucket: one unit each T/N, and so many at once as the capacity
-- allows.
--
-- The state is the time at which all units are there again, the "theoretical arrival time" of the
-- cell rate algorithm. A unit moves it on by T/N, the interval; it may lie ahead by capacity
-- intervals at most. A token bucket of the same capacity decides the same. Times are exact: whole
-- microseconds and a fraction in N-ths of one.
--
-- What is taken is what lies ahead of now. Where a limit has changed it becomes, by the next check, as
-- many units of the new one: so many N-ths of a microsecond are the same units by any N. Where rules
-- of different limits share a counter at the same time it stays a time, for each would let the
-- others' units come back at its own pace. An operator's number, which counts in units, may hold for
-- such rules for a time: it is the only limit meanwhile, so its beginning and its end convert.
--
-- KEYS[1]     five numbers, 8 bytes each: the time, its fraction, the mark of the check that wrote it,
--             how far refunds ever moved the time back, modulo 2^51, and up to which time the key's
--             expiry will do. Once units were leased, a sixth: when the last lease ends. The fourth
--             number begins anywhere, so that refunds which come after the key has gone do not fit to
--             a new one
-- ARGV[1..2]  cost times the interval: microseconds, fraction
-- ARGV[3..4]  capacity times the interval: microseconds, fraction
-- ARGV[5]     the mark: N and 2^32, if it counts in time; N and 2^33, if it counts in units. A state
--             of another limit stays a time if both count in time. N and 3 * 2^32, or 4 * 2^32: in
--             units, or in time, by a check that writes nothing. Versions to 0.2.0 wrote less than
--             2^32, of which no limit follows: it counts in time. To them our marks are unknown, which
--             costs the client less than a microsecond
-- ARGV[6]     time to live of the key, milliseconds
--
-- REPLY[1]  how far the state then lies ahead; where the rule denies, that much below -1
-- REPLY[2]  its fraction
-- REPLY[3]  the state's fourth number

local arrival, fraction, moved_back, expiry_serves = now, 0, now % 1048576 * 2147483648, 0
local state, mark = call('GET', KEYS[1]), ARGV[5] + 0
if state and (#state == 40 or #state == 48) then -- anything else is not ours: it counts as none
    local whole, part, mark_of_state
    whole, part, mark_of_state, moved_back, expiry_serves = unpack_state('<ddddd', state)
    if not (moved_back < 2251799813685248 and expiry_serves >= 0
            and expiry_serves < 9007199254740992) then
        whole, moved_back, expiry_serves = 0, 0, 0 -- not ours
    end
    if whole >= now and whole < 9007199254740992 then
        arrival, fraction = whole, part
        if mark_of_state ~= mark then
            local limit, limit_of_state = mark % 4294967296, mark_of_state % 4294967296
            local is_known = mark_of_state > 4294967296 and mark_of_state < 12884901888
                and limit_of_state >= 1 and part >= 0 and part < limit_of_state
            local counts_in_units = mark >= 8589934592 and mark < 17179869184
                or mark_of_state >= 8589934592
            if not (counts_in_units and is_known) then
                if part > 0 and limit ~= limit_of_state then
                    arrival, fraction = whole + 1, 0 -- rounded, against the client
                end
            elseif limit ~= limit_of_state then
                -- Leased units stay taken to the end of their lease, and are as many beyond it.
                local from = now
                if limit > limit_of_state and #state == 48 then
                    from = math.min(whole, math.max(now, (unpack_state('<d', state, 41))))
                end
                -- The N-ths that lie ahead, divided by the other N, without a number above 2^53.
                local ahead = whole - from
                local rest = ahead % limit
                local product = rest * math.floor(limit_of_state / 32768)
                local parts = product % limit * 32768 + rest * (limit_of_state % 32768) + part
                ahead = math.floor(ahead / limit) * limit_of_state
                    + math.floor(product / limit) * 32768 + math.floor(parts / limit)
                arrival, fraction = from + ahead, parts % limit
                if ahead >= 315619200000000 then -- no debt is longer
                    arrival, fraction = math.max(whole, from + 315619200000000), 0
                end
                if arrival < whole then -- a receipt gives back no more than lies ahead of it now
                    moved_back = (moved_back + whole - arrival + 1) % 2251799813685248
                end
                if mark < 12884901888 then
                    expiry_serves = -1 -- it is to be written, whatever is decided
                end
            end
        end
    end
end
local next_arrival, next_fraction = arrival + ARGV[1], fraction
if ARGV[2] ~= '0' then
    next_fraction = fraction + ARGV[2]
    if next_fraction >= mark % 4294967296 then
        next_arrival, next_fraction = next_arrival + 1, next_fraction - mark % 4294967296
    end
end
local room = now + ARGV[3] - next_arrival
local fits = room > 0 or room == 0 and next_fraction <= tonumber(ARGV[4])

-- charge

if granted and fits or expiry_serves < 0 then
    if not (granted and fits) then
        next_arrival, next_fraction = arrival, fraction
    end
    if expiry_serves < 0 or next_arrival > arrival or next_fraction > fraction then
        if next_arrival <= expiry_serves then -- a SET would cost a tenth of the check more
            call('SETRANGE', KEYS[1], '0', pack('<ddd', next_arrival, next_fraction, mark))
        else
            local lease_end = state and #state == 48 and string.sub(state, 41) or ''
            local serves, life = now + ARGV[3], ARGV[6]
            if next_arrival > serves then -- units that were taken by another limit
                serves, life = next_arrival + 1, life + math.ceil((next_arrival + 1 - serves) / 1000)
            end
            call('SET', KEYS[1], pack('<ddddd', next_arrival, next_fraction, mark, moved_back, serves)
                .. lease_end, 'PX', life)
        end
    end
    arrival, fraction = next_arrival, next_fraction
end
REPLY[1], REPLY[2], REPLY[3] = fits and arrival - now or now - arrival - 1, fraction, moved_back

-- lease
-- ARGV[7]     the longest time for which units are leased, at most a quarter of ARGV[3]
-- ARGV[8..9]  the interval: microseconds, fraction
-- WANTED      units to lease, to 2^20
--
-- REPLY[4]  units leased: at most an eighth of what is left
-- REPLY[5]  for how long they can be used
-- REPLY[6]  how far the state then lies ahead, and REPLY[3]: what a return refers to
--
-- They are taken as if at the lease's end: what would have come back until then does not.

local leased, lease_end = 0, now + ARGV[7]
if granted and fits then
    local interval = ARGV[8] + ARGV[9] / (mark % 4294967296)
    leased = math.min(WANTED, math.floor((now + ARGV[3] - arrival) / interval / 8))
end
if leased > 0 then
    if lease_end > arrival then
        arrival, fraction = lease_end, 0
    end
    local limit = mark % 4294967296
    fraction = fraction + leased * ARGV[9]
    arrival, fraction = arrival + leased * ARGV[8] + math.floor(fraction / limit), fraction % limit
    if state and #state == 48 then
        lease_end = math.max(lease_end, (unpack_state('<d', state, 41)))
    end
    call('SET', KEYS[1], pack('<dddddd', arrival, fraction, mark, moved_back, now + ARGV[3],
        lease_end), 'PX', ARGV[6])
end
REPLY[4], REPLY[5], REPLY[6] = leased, tonumber(ARGV[7]), arrival - now + moved_back

-- debt
--
-- It may lead further than the capacity, to 3653 days ahead. The key has to outlive it.
--
-- The mark stays that of the last check, though another limit has charged: by whose pace units come
-- back until the next check, and from which that converts. Where that is in units, as many units of
-- the last check's limit are charged; else the time that they take by the charge's.

local limit_of_charge, mark_of_state = mark % 4294967296, 0
if arrival > now or expiry_serves < 0 then
    mark_of_state = unpack_state('<d', state, 17)
end
if mark_of_state > 4294967296 and mark_of_state < 12884901888 then
    local time = ARGV[1] + ARGV[2] / limit_of_charge
    mark = mark_of_state
    if expiry_serves < 0 then -- the check has converted the state, which is charged as it was
        arrival, fraction, mark, moved_back, expiry_serves = unpack_state('<ddddd', state)
        next_arrival = arrival + math.ceil(time * limit_of_charge / (mark % 4294967296)) -- rounded up
        next_fraction = fraction
    elseif mark % 4294967296 ~= limit_of_charge then
        next_arrival, next_fraction = arrival + math.ceil(time), 0
    end
end
local furthest = now + 315619200000000
if next_arrival >= furthest then
    next_arrival, next_fraction = math.max(arrival, furthest), 0
end
if next_arrival <= expiry_serves then
    call('SETRANGE', KEYS[1], '0', pack('<ddd', next_arrival, next_fraction, mark))
else
    local lease_end = state and #state == 48 and string.sub(state, 41) or ''
    local serves = math.max(now + ARGV[3], next_arrival + 1)
    call('SET', KEYS[1], pack('<ddddd', next_arrival, next_fraction, mark, moved_back, serves)
        .. lease_end, 'PX', ARGV[6] + math.ceil((serves - now - ARGV[3]) / 1000))
end

-- refund
-- ARGV[1..2]  cost times the interval: microseconds, fraction
-- ARGV[3]     the mark
-- ARGV[4]     the time to which the charge led, if refunds did not move it
--
-- What has come back of itself since the charge is not given a second time, nor what would have come
-- back until the last lease ends. A refund of what was taken before the charge moves the charge's own
-- end, too.
--
-- Where the limit has changed since, as many units go back as still are: what lay ahead at the charge
-- has become longer or shorter by the same ratio. Where it is not sure that it has, by the shorter.

local state = call('GET', KEYS[1])
if state and (#state == 40 or #state == 48) then
    local arrival, fraction, mark_of_state, moved_back = unpack_state('<dddd', state)
    local earliest = #state == 48 and math.max(now, (unpack_state('<d', state, 41))) or now
    local still_taken = ARGV[4] - moved_back - earliest
    if still_taken >= 1125899906842624 then
        still_taken = still_taken - 2251799813685248 -- the fourth number began anew
    end
    if still_taken > 0 and still_taken <= arrival - earliest then -- else of a key that has gone
        local mark, ratio = ARGV[3] + 0, 1
        local limit, limit_of_state = mark % 4294967296, mark_of_state % 4294967296
        local back = math.min(still_taken, ARGV[1])
        if mark_of_state > 4294967296 and limit_of_state >= 1 then
            if mark >= 8589934592 and mark_of_state >= 8589934592 then
                ratio = limit / limit_of_state
            elseif mark >= 8589934592 or mark_of_state >= 8589934592 then
                ratio = math.min(limit / limit_of_state, 1)
            end
        end
        if ratio ~= 1 then
            local units = (ARGV[1] + ARGV[2] / limit) * ratio
            back = math.ceil(math.min(still_taken * math.max(ratio, 1), units)) - 1 -- rounded
            back = math.min(math.max(back, 0), arrival - earliest)
        end
        arrival, moved_back = arrival - back, moved_back + back
        if ARGV[2] ~= '0' and still_taken > back and limit == limit_of_state then
            fraction, moved_back = fraction - ARGV[2], moved_back + 1 -- rounded, against the client
            if fraction < 0 then
                arrival, fraction = arrival - 1, fraction + limit
            end
        end
        moved_back = moved_back % 2251799813685248
        -- its expiry stays
        call('SETRANGE', KEYS[1], '0', pack('<dddd', arrival, fraction, mark_of_state, moved_back))
    end
end
