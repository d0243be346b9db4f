-- What hosts of version 1.0.0 give back: the refund of their lua/bucket.lua.
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
        call('SETRANGE', KEYS[1], '0', pack('<dddd', arrival, fraction, mark_of_state, moved_back))
    end
end
