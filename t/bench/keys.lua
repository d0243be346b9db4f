-- What wrk sends: requests of so many clients, all made beforehand. They come evenly, one client
-- after another, or by Zipf's law: the n-th client as often as an n-th of the first. The URL ends
-- where the client's name goes; RUN is a part of the names, so that no other run knew them.
--
--     wrk -s keys.lua URL -- CLIENTS RUN [evenly|zipf]
--
-- No response(): for that wrk would copy every header.

local requests, count, last = {}, 0, 0

local function next_client()
    last = last % count + 1
    return last
end

-- Vose's alias method: a client by an even choice, and its own share of that choice, or else the
-- client that has the rest of it.
local function zipf()
    local share, other, few, many, sum = {}, {}, {}, {}, 0
    for i = 1, count do
        sum = sum + 1 / i
    end
    for i = 1, count do
        share[i] = count / (i * sum)
        table.insert(share[i] < 1 and few or many, i)
    end
    while #few > 0 and #many > 0 do
        local i, rest = table.remove(few), many[#many]
        other[i] = rest
        share[rest] = share[rest] + share[i] - 1
        if share[rest] < 1 then
            table.insert(few, table.remove(many))
        end
    end
    return function()
        local i = math.random(count)
        return (math.random() < share[i] or not other[i]) and i or other[i]
    end
end

local choose = next_client

function init(arguments)
    count = tonumber(arguments[1])
    for i = 1, count do
        requests[i] = wrk.format(nil, string.format('%s%s-%06d', wrk.path, arguments[2], i))
    end
    if arguments[3] == 'zipf' then
        choose = zipf()
    end
end

function request()
    return requests[choose()]
end

function done(summary, latency)
    local errors = summary.errors
    local broken = errors.connect + errors.read + errors.write + errors.timeout
    print(string.format('figures: %d requests %d us %d refused %d broken p50 %d p99 %d p999 %d',
        summary.requests, summary.duration, errors.status, broken, latency:percentile(50),
        latency:percentile(99), latency:percentile(99.9)))
end
