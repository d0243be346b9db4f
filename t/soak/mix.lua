-- What wrk sends in a soak: requests of a few clients for all paths, by chance, with pauses.
--
--     wrk -s mix.lua URL -- SEED PAUSE CLIENTS PATH...
--
-- PAUSE is the longest one between two requests of a connection, in milliseconds.

local requests, pause = {}, 0

function init(arguments)
    math.randomseed(tonumber(arguments[1]))
    pause = tonumber(arguments[2])
    for client = 1, tonumber(arguments[3]) do
        for i = 4, #arguments do
            requests[#requests + 1] = wrk.format(nil, string.format('%s?key=c%d', arguments[i], client))
        end
    end
end

function request()
    return requests[math.random(#requests)]
end

function delay()
    return math.random(pause)
end
