// Log formats as they are published for proxies, ingress controllers, dashboards and log shippers,
// with lines that are hard to take apart: retried upstreams, forwarded lists, empty fields, and
// what clients send in the place of a request.

#include "replay/log/line_splitter.hpp"
#include "replay/log/log_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace replay {
namespace {

/// Values of some variables, with `|` between them, or that the line cannot be read. Only these
/// variables are in use.
std::string values(std::string_view format_text, std::string_view line,
                   const std::vector<std::string_view> &variables) {
    const auto read = LogFormat::read(format_text);
    if (const auto *error = std::get_if<Error>(&read)) {
        return *error;
    }
    const auto &format = std::get<LogFormat>(read);
    std::vector<Field> fields(format.fields());
    LineSplitter splitter(format, [&](size_t field) {
        return std::ranges::find(variables, format.parts()[field].name) != variables.end();
    });
    switch (splitter.split(line, fields)) {
    case LineSplitter::Result::other_format:
    case LineSplitter::Result::ambiguous:
        return splitter.why_not(line);
    case LineSplitter::Result::split:
        break;
    }
    std::string text;
    std::string buffer;
    for (const std::string_view variable : variables) {
        const auto index = format.field_of(variable);
        if (!index) {
            return "no $" + std::string(variable);
        }
        const Field &field = fields[*index];
        text += variable == variables.front() ? "" : "|";
        text += format.decode(line.substr(field.begin, field.size), buffer);
    }
    return text;
}

struct Published {
    const char *name;
    std::string format;
    std::vector<std::string_view> variables;
    /// Lines, and the values of these variables.
    std::vector<std::pair<std::string, std::string>> lines;
};

const std::string main_format = R"($remote_addr - $remote_user [$time_local] "$request" $status )"
                                R"($body_bytes_sent "$http_referer" "$http_user_agent")";
const std::string time_text = "25/Nov/2026:10:00:00 +0000";
const std::string garbage = R"(\x16\x03\x01\x00\xEE)";

/// A line of `main_format`, in which a client may have sent a `"`, a `[` or a space.
std::string main_line(const std::string &address, const std::string &user,
                      const std::string &request, const std::string &status) {
    return address + " - " + user + " [" + time_text + "] \"" + request + "\" " + status +
           R"( 12 "-" "Mozilla/5.0 (X11; Linux) \x22x\x22 [y]")";
}

std::vector<Published> published() {
    const std::string get = "GET /a?b=1 HTTP/1.1";
    return {
        {"combined",
         main_format,
         {"remote_addr", "remote_user", "request", "status"},
         {{main_line("192.0.2.1", "-", get, "200"), "192.0.2.1||GET /a?b=1 HTTP/1.1|200"},
          {main_line("2001:db8::1", "a b] [c", garbage, "400"),
           "2001:db8::1|a b] [c|\x16\x03\x01" + std::string(1, '\0') + "\xEE|400"},
          {main_line("unix:", "-", "-", "000"), "unix:|||000"}}},
        {"the main format of packages",
         main_format + R"( "$http_x_forwarded_for")",
         {"remote_addr", "http_x_forwarded_for"},
         {{main_line("192.0.2.1", "-", get, "200") + R"( "10.0.0.1, 10.0.0.2")",
           "192.0.2.1|10.0.0.1, 10.0.0.2"},
          {main_line("192.0.2.1", "-", "-", "400") + R"( "-")", "192.0.2.1|"}}},
        {"combined, of a log that has more",
         main_format,
         {"http_user_agent"},
         {{main_line("192.0.2.1", "-", get, "200") + R"( "10.0.0.1")",
           R"(It is not of the format at "Mozilla/5.0 (X11; Linux) \x5cx22x\x5cx22 [y]" "10.0.0.1"": )"
           R"(expected $http_user_agent and """.)"}}},
        {"ingress-nginx",
         main_format + " $request_length $request_time [$proxy_upstream_name] "
                       "[$proxy_alternative_upstream_name] $upstream_addr "
                       "$upstream_response_length $upstream_response_time $upstream_status $req_id",
         {"request_time", "upstream_addr", "upstream_status", "req_id"},
         {{main_line("192.0.2.1", "-", get, "200") +
               " 148 1.500 [shop-web-80] [] 10.0.0.1:80, 10.0.0.2:80 0, 512 0.500, 1.000 502, "
               "200 7a5f",
           "1.500|10.0.0.1:80, 10.0.0.2:80|502, 200|7a5f"},
          {main_line("192.0.2.1", "-", garbage, "400") + " 0 0.000 [] [] - - - - 7a5f",
           "0.000|||7a5f"}}},
        {"ingress-nginx before 0.26",
         R"($the_real_ip - [$the_real_ip] - $remote_user [$time_local] "$request" $status )"
         R"($body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time )"
         R"([$proxy_upstream_name] $upstream_addr $upstream_response_length )"
         R"($upstream_response_time $upstream_status $req_id)",
         {"the_real_ip", "request_time", "upstream_response_time"},
         {{"192.0.2.1 - [192.0.2.1] - - [" + time_text + "] \"" + get +
               "\" 200 0 \"-\" \"c\" 1 9.0 [----] 10.0.0.1:80 : 10.0.0.2:80 0 : 5 1.000 : 8.000 "
               "302 : 200 id",
           "192.0.2.1|9.0|1.000 : 8.000"}}},
        {"an ingress with dashes between all",
         R"([$time_iso8601] - $app_name - $remote_addr - $remote_user - $status - "$request" - )"
         R"($bytes_sent - "$http_referer" - "$http_user_agent" - "$server_name" - $upstream_addr )"
         R"(- $http_host - $upstream_response_time - $request_time)",
         {"remote_addr", "status", "request_time"},
         {{"[2026-11-25T10:00:00+00:00] - my - app - 192.0.2.1 - - - 200 - \"" + get +
               R"(" - 12 - "-" - "c" - "_" - - - a - - - - - 0.005)",
           "192.0.2.1|200|0.005"}}},
        {"a page for APM",
         main_format + R"( rt=$request_time uct="$upstream_connect_time" )"
                       R"(uht="$upstream_header_time" urt="$upstream_response_time")",
         {"request_time", "upstream_connect_time", "upstream_response_time"},
         {{main_line("192.0.2.1", "-", get, "504") +
               R"( rt=60.001 uct="-, 0.001" uht="-, -" urt="0.000, 60.000")",
           "60.001|-, 0.001|0.000, 60.000"}}},
        {"the same without quotes or a space",
         R"($remote_addr $http_x_forwarded_for - $remote_user [$time_local] $ssl_protocol )"
         R"("$request" $status $body_bytes_sent "$http_referer" "$http_user_agent")"
         R"(rt=$request_time uct=$upstream_connect_time uht=$upstream_header_time)",
         {"remote_addr", "http_x_forwarded_for", "upstream_connect_time"},
         {{"192.0.2.1 10.0.0.1, 10.0.0.2 - - [" + time_text + "] TLSv1.3 \"" + get +
               R"(" 200 0 "-" "c"rt=0.100 uct=0.001, 0.002 uht=-, 0.100)",
           "192.0.2.1|10.0.0.1, 10.0.0.2|0.001, 0.002"}}},
        {"times behind combined, and $pipe",
         main_format + " $request_time $upstream_response_time $pipe",
         {"request_time", "upstream_response_time"},
         {{main_line("192.0.2.1", "-", get, "200") + " 10.000 1.000, 9.000 .",
           "10.000|1.000, 9.000"}}},
        {"a time of the upstream before that of the request",
         main_format + " $upstream_response_time $request_time",
         {"request_time"},
         {{main_line("192.0.2.1", "-", get, "200") + " 1.000, 9.000 10.000", "10.000"},
          {main_line("192.0.2.1", "-", get, "200") + " 1.000 : 9.000 10.000", "10.000"},
          {main_line("192.0.2.1", "-", get, "200") + " - 0.000", "0.000"}}},
        {"Zabbix",
         R"($remote_addr $host $remote_user [$time_local]  "$request" $status $body_bytes_sent )"
         R"("$http_referer" "$http_user_agent" $request_time $upstream_response_time $pipe)",
         {"host", "remote_user"},
         {{"192.0.2.1 shop.example a user [" + time_text + "]  \"" + get +
               R"(" 200 1 "-" "c" 0.001 - .)",
           "shop.example|a user"}}},
        {"names before each value",
         R"(RA: $remote_addr H: $host R: "$request" S: $status RS: $body_bytes_sent R: )"
         R"("$http_referer" UA: "$http_user_agent" RT: $request_time URT: $upstream_response_time)",
         {"remote_addr", "status", "request_time"},
         {{"RA: 2001:db8::1 H: a R: \"" + get +
               R"(" S: 200 RS: 0 R: "-" UA: "c" RT: 0.010 URT: 0.005, 0.004)",
           "2001:db8::1|200|0.010"}}},
        {"cloud proxies",
         R"($remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent )"
         R"("$http_referer" "$http_user_agent" CF-IP:"$http_cf_connecting_ip" )"
         R"(CF-Country:"$http_cf_ipcountry" CF-Ray:"$http_cf_ray")",
         {"http_cf_connecting_ip", "http_cf_ray"},
         {{main_line("192.0.2.1", "-", get, "200") +
               R"( CF-IP:"198.51.100.1" CF-Country:"-" CF-Ray:"-")",
           "198.51.100.1|"}}},
        {"cloud proxies, without quotes",
         main_format + " cf_ray=$http_cf_ray cf_ip=$http_cf_connecting_ip",
         {"http_cf_connecting_ip"},
         {{main_line("192.0.2.1", "-", get, "200") + " cf_ray=- cf_ip=198.51.100.1",
           "198.51.100.1"}}},
        {"the client behind a tunnel",
         R"($proxy_add_x_forwarded_for - $remote_user [$time_local] "$request" $status )"
         R"($body_bytes_sent "$http_referer" "$http_user_agent" $http_cf_ipcountry $request_time)",
         {"proxy_add_x_forwarded_for", "request_time"},
         {{"10.0.0.1, 192.0.2.1 - - [" + time_text + "] \"" + get + R"(" 200 0 "-" "c" DE 0.001)",
           "10.0.0.1, 192.0.2.1|0.001"}}},
        {"a separator of its own, and nothing quoted",
         "[$time_local] _{^&*}_ $host _{^&*}_ $http_cf_connecting_ip _{^&*}_ $remote_addr _{^&*}_ "
         "$request _{^&*}_ $status _{^&*}_ $http_user_agent ;;;",
         {"remote_addr", "request", "status"},
         {{"[" + time_text + "] _{^&*}_ a _{^&*}_ - _{^&*}_ 192.0.2.1 _{^&*}_ " + get +
               " _{^&*}_ 200 _{^&*}_ a b c ;;;",
           "192.0.2.1|" + get + "|200"},
          {"[" + time_text +
               "] _{^&*}_ a _{^&*}_ - _{^&*}_ 192.0.2.1 _{^&*}_ \\x00\\x01 _{^&*}_ "
               "400 _{^&*}_ - ;;;",
           std::string("192.0.2.1|") + std::string(1, '\0') + "\x01|400"}}},
        {"LTSV for alp",
         "time:$time_local\\thost:$remote_addr\\tforwardedfor:$http_x_forwarded_for\\treq:$"
         "request\\t"
         "status:$status\\tmethod:$request_method\\turi:$request_uri\\tsize:$body_bytes_sent\\t"
         "referer:$http_referer\\tua:$http_user_agent\\treqtime:$request_time\\tcache:"
         "$upstream_http_x_cache\\truntime:$upstream_http_x_runtime\\tapptime:"
         "$upstream_response_time\\tvhost:$host",
         {"remote_addr", "http_x_forwarded_for", "request", "status", "host"},
         {{"time:" + time_text + "\thost:192.0.2.1\tforwardedfor:10.0.0.1, 10.0.0.2\treq:" + get +
               "\tstatus:200\tmethod:GET\turi:/a?b=1\tsize:1\treferer:-\tua:a b\treqtime:0.001\t"
               "cache:-\truntime:-\tapptime:0.001, 0.002\tvhost:shop.example",
           "192.0.2.1|10.0.0.1, 10.0.0.2|" + get + "|200|shop.example"},
          {"time:" + time_text +
               "\thost:192.0.2.1\tforwardedfor:-\treq:\\x09\tstatus:400\tmethod:-\t"
               "uri:-\tsize:1\treferer:-\tua:-\treqtime:0.001\tcache:-\truntime:-\t"
               "apptime:-\tvhost:-",
           "192.0.2.1||\t|400|"}}},
        {"LTSV for Kibana",
         "time:$time_iso8601\\tremote_addr:$remote_addr\\trequest_method:$request_method\\t"
         "request_length:$request_length\\trequest_uri:$request_uri\\thttps:$https\\turi:$uri\\t"
         "query_string:$query_string\\tstatus:$status",
         {"remote_addr", "request_uri", "uri", "query_string"},
         {{"time:2026-11-25T10:00:00+00:00\tremote_addr:192.0.2.1\trequest_method:GET\t"
           "request_length:80\trequest_uri:/a%20b?c\thttps:\turi:/a b\tquery_string:c\tstatus:200",
           "192.0.2.1|/a%20b?c|/a b|c"}}},
        {"JSON with escapes",
         R"(escape=json {"msec":"$msec","remote_addr":"$remote_addr","request":"$request",)"
         R"("status":"$status","upstream":"$upstream_addr","agent":"$http_user_agent"})",
         {"msec", "remote_addr", "request", "http_user_agent"},
         {{R"({"msec":"1764021600.000","remote_addr":"192.0.2.1","request":"GET /\"\\ HTTP/1.1",)"
           R"("status":"200","upstream":"10.0.0.1:80, 10.0.0.2:80","agent":"a\",\"b\":\"c"})",
           R"(1764021600.000|192.0.2.1|GET /"\ HTTP/1.1|a","b":"c)"},
          {R"({"msec":"1764021600.000","remote_addr":"192.0.2.1","request":"\u0016\u0003",)"
           R"("status":"400","upstream":"","agent":""})",
           "1764021600.000|192.0.2.1|\x16\x03|"}}},
        {"JSON with numbers",
         R"(escape=json {"time":"$time_iso8601","ip":"$remote_addr","status":$status,"bytes":)"
         R"($body_bytes_sent,"rt":$request_time,"urt":$upstream_response_time,"user":"$remote_user"})",
         {"status", "request_time", "upstream_response_time", "remote_user"},
         {{R"({"time":"2026-11-25T10:00:00+00:00","ip":"192.0.2.1","status":200,"bytes":5,)"
           R"("rt":0.003,"urt":0.001, 0.002,"user":""})",
           "200|0.003|0.001, 0.002|"},
          {R"({"time":"2026-11-25T10:00:00+00:00","ip":"192.0.2.1","status":304,"bytes":0,)"
           R"("rt":0.000,"urt":,"user":"x"})",
           "304|0.000||x"}}},
        {"JSON by hand, with the usual escapes",
         R"({"ip":"$remote_addr","time":"$time_iso8601","body":"$request_body","ua":"$http_user_agent"})",
         {"remote_addr", "request_body", "http_user_agent"},
         {{R"({"ip":"192.0.2.1","time":"2026-11-25T10:00:00+00:00","body":"{\x22a\x22:1}","ua":"-"})",
           R"(192.0.2.1|{"a":1}|)"}}},
        {"a JSON object that another module made",
         "escape=none $json_log",
         {"json_log"},
         {{R"({"a":"b"})", R"({"a":"b"})"}}},
        {"JSON of several lines",
         "{\n  \"ip\": \"$remote_addr\"\n}",
         {},
         {{"", "--format: it has a line break, so that a request takes several lines of the log, "
               "which cannot be read"}}},
        {"a virtual host and a port",
         R"($server_name:$server_port $remote_addr - $remote_user [$time_local] "$request" $status )"
         R"($bytes_sent "$http_referer" "$http_user_agent")",
         {"server_name", "server_port", "remote_addr"},
         {{"shop.example:443 " + main_line("2001:db8::1", "-", get, "200"),
           "shop.example|443|2001:db8::1"}}},
        {"what is cached, without quotes",
         R"($host $server_name $server_port $remote_addr $upstream_cache_status $remote_user )"
         R"([$time_local] " $request " $status $body_bytes_sent "$http_referer")",
         {"host", "remote_addr", "request"},
         {{"a b 80 192.0.2.1 - - [" + time_text + "] \" " + get + " \" 200 0 \"-\"",
           "a|192.0.2.1|" + get}}},
        {"a cache of games",
         R"([$cacheidentifier] $remote_addr / $http_x_forwarded_for - $remote_user [$time_local] )"
         R"("$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" )"
         R"("$upstream_cache_status" "$host" "$http_range")",
         {"cacheidentifier", "remote_addr", "http_x_forwarded_for"},
         {{"[steam] 192.0.2.1 / 10.0.0.1, 10.0.0.2 - - [" + time_text + "] \"" + get +
               R"(" 206 1 "-" "c" "HIT" "a" "bytes=0-1")",
           "steam|192.0.2.1|10.0.0.1, 10.0.0.2"}}},
        {"a cache, and names with a colon",
         R"($remote_addr - [$time_local] "$request" $status Cache: $upstream_cache_status Time: )"
         R"($upstream_response_time)",
         {"status", "upstream_response_time"},
         {{"192.0.2.1 - [" + time_text + "] \"" + get + "\" 200 Cache: - Time: 0.001 : 0.002",
           "200|0.001 : 0.002"}}},
        {"the key of a cache at the end",
         main_format + " cache_status=$upstream_cache_status cache_key=$request_uri",
         {"request_uri"},
         {{main_line("192.0.2.1", "-", get, "200") + " cache_status=MISS cache_key=/a b", "/a b"}}},
        {"upstreams before the request",
         "to: $upstream_addr: $request $status",
         {"upstream_addr", "request", "status"},
         {{"to: 10.0.0.1:80, [2001:db8::2]:80: GET / HTTP/1.1 200",
           "10.0.0.1:80, [2001:db8::2]:80|GET / HTTP/1.1|200"},
          {"to: unix:/run/app.sock: GET /: HTTP/1.1 200", "unix:/run/app.sock|GET /: HTTP/1.1|200"},
          {"to: -: - 400", "||400"},
          {"from: x", "It does not begin with \"to: \"."}}},
        {"a list, and the address",
         "$msec $http_x_forwarded_for $remote_addr",
         {"http_x_forwarded_for", "remote_addr"},
         {{"1764021600.000 1.2.3.4, 5.6.7.8 1.1.1.1", "1.2.3.4, 5.6.7.8|1.1.1.1"},
          {"1764021600.000 - 1.1.1.1", "|1.1.1.1"},
          {"1764021600.000 evil 9.9.9.9 1.1.1.1", "evil 9.9.9.9|1.1.1.1"}}},
        {"what a client sent, and what it sent",
         "$remote_addr $http_user_agent $http_referer",
         {"http_user_agent"},
         {{"192.0.2.1 a b", "a"},
          {"192.0.2.1 a b c", "It can be read in several ways: $http_user_agent may be \"a\" or "
                              "\"a b\". Quotes around it in the log_format tell."}}},
        {"the times of a page of request bodies",
         "$remote_addr - $time_local - $request_body",
         {"remote_addr", "time_local", "request_body"},
         {{"192.0.2.1 - " + time_text + " - a - b", "192.0.2.1|" + time_text + "|a - b"}}},
        {"values between commas",
         "$time_iso8601,$remote_addr,$request_method,$uri,$status,$request_time",
         {"remote_addr", "uri", "status"},
         {{"2026-11-25T10:00:00+00:00,192.0.2.1,GET,/a,b,200,0.001", "192.0.2.1|/a,b|200"},
          {"2026-11-25T10:00:00+00:00,unix:,GET,/a,200,0.001", "unix:|/a|200"}}},
        {"values between bars",
         "$remote_addr|$remote_port|$ssl_protocol|$request|$status|$http_user_agent",
         {"remote_port", "request", "status"},
         {{"2001:db8::1|4711|-|GET /a|b HTTP/1.1|200|c", "4711|GET /a|b HTTP/1.1|200"}}},
        {"variables side by side",
         R"($remote_addr [$time_local] "$scheme://$host$request_uri" $status)",
         {"remote_addr", "scheme", "status"},
         {{"192.0.2.1 [" + time_text + "] \"https://a/b\" 200", "192.0.2.1|https|200"}}},
        {"a proxy that is not nginx, by names of one's own",
         R"($remote_addr - $remote_user [$time_local] "$request" $status $size "$referer" "$agent" )"
         R"($number "$router" "$server" ${milliseconds}ms)",
         {"remote_addr", "request", "milliseconds"},
         {{main_line("192.0.2.1", "-", get, "200") + R"( 17 "web@docker" "http://10.0.0.1:80" 3ms)",
           "192.0.2.1|" + get + "|3"}}},
        {"a time that nginx does not write",
         R"([$time_iso8601] "$request" $status)",
         {"status"},
         {{"[2026-11-25T10:00:00.310Z] \"" + get + "\" 200",
           R"(It is not of the format at "2026-11-25T10:00:00.310Z] "GET /a?b=1 HTTP/1.1" 200": )"
           R"(expected $time_iso8601 and "] "".)"}}},
    };
}

TEST(PublishedFormats, AreReadOrRefusedInWords) {
    const auto all = published();
    EXPECT_GE(all.size(), 30u);
    for (const Published &one : all) {
        for (const auto &[line, expected] : one.lines) {
            EXPECT_EQ(values(one.format, line, one.variables), expected)
                << one.name << ": " << line;
        }
    }
}

} // namespace
} // namespace replay
