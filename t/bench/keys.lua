-- What wrk sends: requests of so many clients, one after another, all made beforehand. The URL ends
-- where the client's name goes; RUN is a part of the names, so that no other run knew them.
--
--     wrk -s keys.lua URL -- CLIENTS RUN
--
-- No response(): for that wrk would copy every header.

local requests, count, last = {}, 0, 0

function init(arguments)
    count = tonumber(arguments[1])
    for i = 1, count do
        requests[i] = wrk.format(nil, string.format('%s%s-%06d', wrk.path, arguments[2], i))
    end
end

function request()
    last = last % count + 1
    return requests[last]
end

function done(summary, latency)
    local errors = summary.errors
    local broken = errors.connect + errors.read + errors.write + errors.timeout
    print(string.format('figures: %d requests %d us %d refused %d broken p50 %d p99 %d p999 %d',
        summary.requests, summary.duration, errors.status, broken, latency:percentile(50),
        latency:percentile(99), latency:percentile(99.9)))
end
