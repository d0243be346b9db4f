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
-- KEYS[2]     what is known of the past, see below. If it is KEYS[1] nothing is, and nothing is kept
-- ARGV[1..2]  cost times the interval: microseconds, fraction
-- ARGV[3]     the mark
-- ARGV[4]     the time to which the charge led, if refunds did not move it
-- ARGV[5]     when it was made; 0: nobody knows, or it comes back in parts
-- ARGV[6]     the time to which it led
-- ARGV[7]     capacity times the interval, microseconds
--
-- What has come back of itself since the charge is not given a second time, nor what would have come
-- back until the last lease ends. What has not is what the charge led to and still lies ahead. But no
-- more goes back than lay ahead at every moment since the charge, as the bucket had been if each charge
-- had cost from the start what it has kept by now: so the bucket is always as if it had.
--
-- What lay ahead at a moment then is what lay ahead of it indeed, less what was given back since then of
-- charges before it. Nobody keeps all of that; what is known says less, and the most of these counts:
--
-- * The fourth number tells what was given back since the charge, of whatever charges.
-- * KEYS[2] keeps a few moments of refunds, and what lay ahead then, less what was given back since of
--   charges before. From one to the next comes back of itself what time has passed, at most.
-- * Of its own a charge has lost what time has passed, at most, since it was made, or since such a
--   moment: what is given back of charges before it brings its own no nearer than now.
--
-- KEYS[2]: numbers of 8 bytes. The state's fourth one, as which it is out of date once others have moved
-- it. The state's mark at all moments; 0 if there were several. Then four of each moment, the oldest
-- first: the moment, what lay ahead, the same less what was given back since, and the fourth number.
-- They are a quarter of the capacity apart, all but the last, that of the last refund. The last charge
-- needs none of this, for what it gives back has not been there for any other one.
--
-- Where the limit has changed since, as many units go back as still are: what lay ahead at the charge
-- has become longer or shorter by the same ratio. Where it is not sure that it has, by the shorter.

local state = call('GET', KEYS[1])
if state and (#state == 40 or #state == 48) then
    local arrival, fraction, mark_of_state, moved_back = unpack_state('<dddd', state)
    local earliest = #state == 48 and math.max(now, (unpack_state('<d', state, 41))) or now
    local ahead = arrival - earliest
    local reaches = ARGV[4] - moved_back - earliest
    if reaches >= 1125899906842624 then
        reaches = reaches - 2251799813685248 -- the fourth number began anew
    end
    local is_of_state = ahead > 0 and reaches <= ahead -- else of a key that has gone, or too late
    local past, is_last = {}, is_of_state and reaches == ahead and ARGV[5] ~= '0'
    local known = is_of_state and call('GET', KEYS[2])
    if known then
        if KEYS[2] ~= KEYS[1] and #known <= 208 and #known % 32 == 16 then
            past = { unpack_state('<' .. string.rep('d', #known / 8), known) }
            past[#past] = nil -- where the numbers end
        end
        if past[1] ~= moved_back or not (#past > 2 and past[#past - 3] <= earliest) then
            past, is_last = {}, false -- what is not kept here has to move the fourth number
        end
    end
    local newest = #past - 3
    if is_of_state and KEYS[2] ~= KEYS[1] and not (newest > 0 and past[newest] == earliest)
        and not (newest < 0 and is_last) then
        if newest < 0 then
            past[1], past[2], newest = moved_back, mark_of_state, 3
        elseif newest == 3 or past[newest] - past[newest - 4] >= ARGV[7] / 4 then
            newest = newest + 4
        end
        past[newest], past[newest + 1], past[newest + 2] = earliest, ahead, ahead
        past[newest + 3] = moved_back
        past[2] = past[2] == mark_of_state and mark_of_state or 0
        if newest > 23 then
            for _ = 1, 4 do table.remove(past, 3) end
        end
    end
    local mark, ratio = ARGV[3] + 0, 1
    local limit, limit_of_state = mark % 4294967296, mark_of_state % 4294967296
    if mark_of_state > 4294967296 and limit_of_state >= 1 then
        if mark >= 8589934592 and mark_of_state >= 8589934592 then
            ratio = limit / limit_of_state
        elseif mark >= 8589934592 or mark_of_state >= 8589934592 then
            ratio = math.min(limit / limit_of_state, 1)
        end
    end
    local still_taken = is_of_state and reaches or 0
    local made_before = {} -- of these moments the charge was made
    local least, later = ahead, earliest
    for at = #past - 3, 3, -4 do
        local moment = past[at]
        local since = earliest - moment
        least, later = math.min(least, past[at + 2] - (later - moment)), moment
        local reached = reaches + (moved_back - past[at + 3]) % 2251799813685248 + since
        if reached <= past[at + 1] then
            made_before[#made_before + 1] = at + 2
            if ratio == 1 and past[2] == mark and ARGV[5] ~= '0' then
                still_taken = math.max(still_taken, math.min(ARGV[1], reached) - since)
            end
        elseif moment <= tonumber(ARGV[5]) then
            if ratio == 1 then
                still_taken = math.max(still_taken, math.min(least, ARGV[6] - earliest),
                    ARGV[1] - (earliest - ARGV[5]))
            end
            break
        end
    end
    still_taken = math.min(still_taken, ahead)
    if still_taken > 0 then
        local back = math.min(still_taken, ARGV[1])
        if ratio ~= 1 then
            local units = (ARGV[1] + ARGV[2] / limit) * ratio
            back = math.ceil(math.min(still_taken * math.max(ratio, 1), units)) - 1 -- rounded
            back = math.min(math.max(back, 0), ahead)
        end
        local moved = back
        arrival = arrival - back
        if ARGV[2] ~= '0' and still_taken > back and limit == limit_of_state then
            fraction, moved = fraction - ARGV[2], moved + 1 -- rounded, against the client
            if fraction < 0 then
                arrival, fraction = arrival - 1, fraction + limit
            end
        end
        if not is_last then
            moved_back = (moved_back + moved) % 2251799813685248
        end
        -- its expiry stays
        call('SETRANGE', KEYS[1], '0', pack('<dddd', arrival, fraction, mark_of_state, moved_back))
        if past[1] then
            past[1] = moved_back
            for _, at in ipairs(made_before) do
                past[at] = past[at] - moved
            end
            call('SET', KEYS[2], pack('<' .. string.rep('d', #past), unpack(past)), 'PX',
                math.ceil(ARGV[7] / 1000) + 5001)
        end
    end
end
