-- For wrk: about 400 requests a second of a few clients, some more often than others.
function delay()
    return 10
end

local count = 0
function request()
    count = count + 1
    return wrk.format("GET", "/?key=key-" .. (count % 3 == 0 and count % 8 or 1))
end
