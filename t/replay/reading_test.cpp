// What the replay reads: nginx's configuration, log formats, times, request lines and log files.

#include "replay/log/line_splitter.hpp"
#include "replay/log/log_files.hpp"
#include "replay/log/log_format.hpp"
#include "replay/log/log_time.hpp"
#include "replay/log/ordered_log.hpp"
#include "replay/log/request_uri.hpp"
#include "replay/rules/rules_file.hpp"
#include "replay/syntax/config_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace replay {
namespace {

/// A file with a text, for the time of a test.
class TemporaryFile {
  public:
    explicit TemporaryFile(std::string_view text) {
        const int file = mkstemp(path_.data());
        EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        close(file);
    }
    ~TemporaryFile() { unlink(path_.c_str()); }
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;
    const std::string &path() const { return path_; }

  private:
    std::string path_ = "/tmp/replay-test-XXXXXX";
};

std::string shown(const std::vector<Directive> &directives) {
    std::string text;
    for (const Directive &directive : directives) {
        for (const std::string &word : directive.words) {
            text += "<" + word + ">";
        }
        text += directive.has_block ? "{" + shown(directive.block) + "}" : ";";
    }
    return text;
}

std::string read_text(std::string_view text) {
    const auto read = read_config_text(text, "f");
    const auto *error = std::get_if<Error>(&read);
    return error != nullptr ? *error : shown(std::get<std::vector<Directive>>(read));
}

TEST(ConfigFile, IsReadByTheRulesOfNginx) {
    EXPECT_EQ(read_text("a b;c{d e;}#x\nf;"), "<a><b>;<c>{<d><e>;}<f>;");
    EXPECT_EQ(read_text("a \"b c\" 'd\"e' \"f\\\"g\" h\\ni j#k;"),
              "<a><b c><d\"e><f\"g><h\ni><j#k>;");
    EXPECT_EQ(read_text("map $a $b { \"\" x; default ${c}y; }"),
              "<map><$a><$b>{<><x>;<default><${c}y>;}");
    EXPECT_EQ(read_text("a \\d;"), "<a><\\d>;");
}

TEST(ConfigFile, RefusesWhatNginxRefuses) {
    EXPECT_EQ(read_text("a b"), "f:1: unexpected end of file, expecting \";\" or \"}\"");
    EXPECT_EQ(read_text("a {\nb;"), "f:2: unexpected end of file, expecting \";\" or \"}\"");
    EXPECT_EQ(read_text("a;\n}"), "f:2: unexpected \"}\"");
    EXPECT_EQ(read_text(";"), "f:1: unexpected \";\"");
    EXPECT_EQ(read_text("{}"), "f:1: unexpected \"{\"");
    EXPECT_EQ(read_text("a \"b\"c;"), "f:1: unexpected \"c\" behind a text in quotes");
    EXPECT_EQ(read_text("a 'b"), "f:1: unexpected end of file in a text in quotes");
    std::string deep;
    for (int i = 0; i < 300'000; ++i) {
        deep += "a{";
    }
    EXPECT_EQ(read_text(deep), "f:1: there are too many blocks in each other");
}

TEST(ConfigFile, IncludesFromTheFolderOfTheFirstFile) {
    std::string folder = "/tmp/replay-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::filesystem::create_directories(folder + "/conf.d");
    const auto write_file = [&](const char *name, const char *text) {
        std::ofstream(folder + "/" + name) << text;
    };
    write_file("main.conf", "include conf.d/*.conf;");
    write_file("conf.d/site.conf", "a { include shared; }");
    write_file("shared", "b;");
    const auto read = read_config_file(folder + "/main.conf");
    std::filesystem::remove_all(folder);
    const auto *directives = std::get_if<std::vector<Directive>>(&read);
    ASSERT_NE(directives, nullptr) << std::get<Error>(read);
    EXPECT_EQ(shown(*directives), "<a>{<b>;}");
}

/// The values of a line, with `|` between them.
std::string values_of(std::string_view format_text, std::string_view line) {
    const auto read = LogFormat::read(format_text);
    if (const auto *error = std::get_if<Error>(&read)) {
        return *error;
    }
    const auto &format = std::get<LogFormat>(read);
    std::vector<Field> fields(format.fields());
    LineSplitter splitter(format, [](size_t) { return true; });
    switch (splitter.split(line, fields)) {
    case LineSplitter::Result::other_format:
        return "not of the format";
    case LineSplitter::Result::ambiguous:
        return "ambiguous";
    case LineSplitter::Result::split:
        break;
    }
    std::string values;
    std::string buffer;
    for (const Field &field : fields) {
        values += format.decode(line.substr(field.begin, field.size), buffer);
        values += '|';
    }
    return values;
}

TEST(LogFormat, TakesLinesApart) {
    EXPECT_EQ(
        values_of(LogFormat::combined,
                  "::1 - - [25/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 12 \"-\" \"a b\""),
        "::1||25/Nov/2026:10:00:00 +0000|GET / HTTP/1.1|200|12||a b|");
    EXPECT_EQ(values_of("$a:${b}c", "1:2c"), "1|2|");
    EXPECT_EQ(values_of("x$a", "x"), "|");
    EXPECT_EQ(values_of("$a $b", "1"), "not of the format");
    EXPECT_EQ(values_of("$a $b", "1 2 3"), "ambiguous");
    EXPECT_EQ(values_of("$a]", "1"), "not of the format");
    EXPECT_EQ(values_of("$a$b $c", "1 2"), "1|2|"); // $a and $b are one field
    EXPECT_EQ(values_of("$a\\t\\\"$b\\\"", "1\t\"2\""), "1|2|");
    EXPECT_EQ(values_of("a", ""), "--format: there is no variable in it");
    EXPECT_EQ(values_of("$", ""), "--format: invalid variable name in \"$\"");
}

TEST(LogFormat, DecodesWhatNginxEscaped) {
    EXPECT_EQ(values_of("\"$a\"", "\"\\x22\\xC3\\xA4\\x5C\""), "\"\xC3\xA4\\|");
    EXPECT_EQ(values_of("escape=json {\"a\":\"$a\",\"b\":\"$b\"}",
                        R"({"a":"x\",\"b\":\"y\u001fz\\","b":"-"})"),
              "x\",\"b\":\"y\x1fz\\|-|");
    EXPECT_EQ(values_of("escape=none $a", "\\x22"), "\\x22|");
    EXPECT_EQ(values_of("$a", "\\xZZ\\"), "\\xZZ\\|");
}

TEST(LogTime, ReadsWhatNginxWrites) {
    EXPECT_EQ(read_seconds("1700000000.123456"), 1700000000123456);
    EXPECT_EQ(read_seconds("1700000000.123"), 1700000000123000);
    EXPECT_EQ(read_seconds("0.005"), 5000);
    for (const char *text : {"", "-", "1.1234567", "-1.000", "1.x", "x", "99999999999999"}) {
        EXPECT_EQ(read_seconds(text), std::nullopt) << text;
    }
    EXPECT_EQ(read_time_local("25/Nov/2026:10:00:00 +0100"), 1795597200000000);
    EXPECT_EQ(read_time_local("25/Nov/2026:10:00:00 -0930"), 1795635000000000);
    EXPECT_EQ(read_time_iso8601("2026-11-25T10:00:00+01:00"), 1795597200000000);
    for (const char *text : {"", "25/Foo/2026:10:00:00 +0100", "31/Feb/2026:10:00:00 +0100",
                             "25/Nov/2026:24:00:00 +0100", "25/Nov/2026 10:00:00 +0100"}) {
        EXPECT_EQ(read_time_local(text), std::nullopt) << text;
    }
}

std::string path_of(std::string_view uri) {
    std::string buffer;
    return std::string(normalised_path(uri, buffer).value_or("400"));
}

TEST(RequestUri, IsNormalisedAsByNginx) {
    EXPECT_EQ(path_of("/a/b?c"), "/a/b");
    EXPECT_EQ(path_of("/a//b///"), "/a/b/");
    EXPECT_EQ(path_of("/a/./b/../c/."), "/a/c/");
    EXPECT_EQ(path_of("/a/b/.."), "/a/");
    EXPECT_EQ(path_of("/%61%2Fb%3f#x"), "/a/b?");
    EXPECT_EQ(path_of("/..."), "/...");
    for (const char *uri :
         {"", "a", "*", "http://host/a", "/..", "/a/../..", "/%", "/%zz", "/%00"}) {
        EXPECT_EQ(path_of(uri), "400") << uri;
    }
}

TEST(RequestUri, HasItsParts) {
    const auto line = read_request_line("POST /a?b=1&C=2&b=3 HTTP/1.1");
    ASSERT_TRUE(line);
    EXPECT_EQ(line->method, "POST");
    EXPECT_EQ(line->protocol, "HTTP/1.1");
    EXPECT_EQ(arguments_of(line->uri), "b=1&C=2&b=3");
    EXPECT_EQ(argument_of(arguments_of(line->uri), "b"), "1");
    EXPECT_EQ(argument_of(arguments_of(line->uri), "c"), "2");
    EXPECT_EQ(argument_of(arguments_of(line->uri), "d"), "");
    EXPECT_EQ(read_request_line("GET http://host/a?b HTTP/1.1")->uri, "/a?b");
    EXPECT_EQ(read_request_line("GET http://host HTTP/1.1")->uri, "/");
    EXPECT_EQ(read_request_line("\x16\x03\x01"), std::nullopt);
    EXPECT_EQ(read_request_line(""), std::nullopt);
}

/// The lines of files by their order, without their times.
std::string ordered(const std::vector<std::string> &texts) {
    const auto read = LogFormat::read("$msec $name");
    const auto &format = std::get<LogFormat>(read);
    std::vector<std::unique_ptr<TemporaryFile>> temporary;
    std::vector<std::string> paths;
    for (const std::string &text : texts) {
        temporary.push_back(std::make_unique<TemporaryFile>(text));
        paths.push_back(temporary.back()->path());
    }
    OrderedLog log(paths, format, Variables(format));
    std::string names;
    while (const auto line = log.next()) {
        names += line->text.substr(line->fields[1].begin, line->fields[1].size);
    }
    return names + " " + std::to_string(log.lines()) + "/" + std::to_string(log.skipped().lines) +
           "/" + std::to_string(log.late());
}

TEST(OrderedLog, PutsLinesIntoOrder) {
    EXPECT_EQ(ordered({"10.000 a\n10.500 c\n10.200 b\n"}), "abc 3/0/0");
    EXPECT_EQ(ordered({"70.000 c\n10.000 a\n80.000 d\n69.000 b\n"}), "abcd 4/0/0");
    EXPECT_EQ(ordered({"10.000 a\n10.000 b\n10.000 c\n"}), "abc 3/0/0");
}

TEST(OrderedLog, GivesLateLinesJustInTime) {
    EXPECT_EQ(ordered({"10.000 a\n100.000 b\n101.000 c\n200.000 e\n201.000 f\n20.000 d\n"}),
              "abcdef 6/0/1");
}

TEST(OrderedLog, IsNotLedAstrayByAWrongClock) {
    EXPECT_EQ(ordered({"10.000 a\n30.000 d\n9000.000 g\n20.000 b\n25.000 c\n50.000 f\n40.000 e\n"}),
              "abcdefg 7/0/0");
    EXPECT_EQ(ordered({"9000.000 f\n10.000 a\n12.000 c\n11.000 b\n100.000 d\n101.000 e\n"}),
              "abcdef 6/0/0"); // also if it is that of the first line
    EXPECT_EQ(ordered({"10.000 a\n7258118401.000 b\n11.000 c\n"}), "ac 3/1/0"); // the year 2200
}

TEST(OrderedLog, MergesFiles) {
    EXPECT_EQ(ordered({"300.000 e\n400.000 f\n", "10.000 a\n100.000 b\n", "50.000 c\n350.000 g\n"}),
              "acbegf 6/0/0");
}

TEST(OrderedLog, SkipsWhatIsOfAnotherFormat) {
    EXPECT_EQ(ordered({"10.000 a\nnonsense\n\n- b\n11.000 c"}), "ac 4/2/0");
    EXPECT_EQ(ordered({""}), " 0/0/0");
}

TEST(LogFile, CutsLongLines) {
    const TemporaryFile file(std::string(200'000, 'x') + "\nshort\r\n");
    const auto log = LogFile::open(file.path());
    EXPECT_EQ(log->next().value_or("").size(), 65536u);
    EXPECT_EQ(log->next(), "short");
    EXPECT_EQ(log->next(), std::nullopt);
    EXPECT_EQ(LogFile::open("/nowhere"), nullptr);
    EXPECT_EQ(LogFile::open("/tmp"), nullptr);
}

/// Reads rules with the format `combined`. Returns what is refused, or the paths and rules of the
/// locations.
std::string rules_of(std::string_view text, const ZoneKeys &zone_keys = {}) {
    const TemporaryFile file(text);
    const auto format = std::get<LogFormat>(LogFormat::read(LogFormat::combined));
    Variables variables(format);
    auto read = read_rules_file(file.path(), zone_keys, "rl:", variables);
    if (const auto *error = std::get_if<Error>(&read)) {
        const size_t at = error->find(file.path());
        return at == std::string::npos ? *error : error->substr(at + file.path().size() + 1);
    }
    const auto &rules = std::get<RulesFile>(read);
    std::string shown;
    for (const char *path : {"/", "/a", "/a/b", "/exact"}) {
        shown += std::string(path) + ":";
        for (const limiter::Rule *rule : rules.server.serving(path).rules) {
            shown += " " + rule->name;
        }
        shown += "; ";
    }
    return shown;
}

constexpr const char *zone = "redis_rate_limit_zone $remote_addr zone=z:10m;\n";

TEST(RulesFile, InheritsAsNginxDoes) {
    EXPECT_EQ(rules_of(std::string(zone) + R"(
        redis_rate_limit zone=z algorithm=gcra limit=1 window=1 name=outer;
        server {
            location /a { redis_rate_limit zone=z algorithm=gcra limit=1 window=1 name=a;
                          location /a/b { proxy_pass http://x; } }
            location = /exact { redis_rate_limit off; }
        })"),
              "/: outer; /a: a; /a/b: a; /exact:; ");
    EXPECT_EQ(rules_of(std::string(zone) + R"(
        location /a { redis_rate_limit zone=z algorithm=gcra limit=1 window=1 name=a; }
        location ^~/a/ { redis_rate_limit zone=z algorithm=gcra limit=1 window=1 name=b; }
        location =/exact { redis_rate_limit zone=z algorithm=gcra limit=1 window=1 name=c; })"),
              "/:; /a: a; /a/b: b; /exact: c; ");
    EXPECT_EQ(rules_of(R"(http {
        server { location /a { redis_rate_limit zone=z algorithm=gcra limit=1 window=1; } }
        redis_rate_limit_zone $binary_remote_addr zone=z:10m; })"),
              "/:; /a: z/1s; /a/b: z/1s; /exact:; ");
}

TEST(RulesFile, NamesWhatItCannotEvaluate) {
    const std::string rule = "redis_rate_limit zone=z algorithm=gcra limit=1 window=1;\n";
    EXPECT_EQ(rules_of("redis_rate_limit_zone $http_x_key zone=z:10m;" + rule),
              "1: redis_rate_limit_zone: the log has no $http_x_key, in the key of zone \"z\"; "
              "--zone-key gives another key");
    EXPECT_NE(
        rules_of("redis_rate_limit_zone $http_x_key zone=z:10m;" + rule, {{"z", "$remote_addr"}})
            .find("z/1s"),
        std::string::npos);
    EXPECT_EQ(rules_of(zone + rule, {{"y", "$remote_addr"}}), "--zone-key: no zone is named \"y\"");
    EXPECT_EQ(
        rules_of(zone + std::string("location ~ \\.php$ { ") + rule + "}"),
        "2: location: regular expressions are not evaluated, expected a prefix, or = or ^~ and "
        "a path");
    EXPECT_EQ(rules_of(zone + std::string("location / { if ($x) { ") + rule + "} }"),
              "2: if: cannot be evaluated from a log; leave it out");
    EXPECT_EQ(rules_of(zone + std::string("server { } server { }") + rule),
              "2: server: of several servers the log does not say which one a request is for; "
              "expected one");
    EXPECT_EQ(rules_of(zone + std::string("location /a { } location = /a { } location ^~ /a { }")),
              "2: location: duplicate location \"/a\"");
    EXPECT_EQ(rules_of(zone + ("redis_rate_limit off; " + rule)),
              "2: redis_rate_limit: invalid parameter \"zone=z\", expected off alone on a level");
    EXPECT_EQ(rules_of(zone + rule + "redis_rate_limit off;"),
              "3: redis_rate_limit: invalid parameter \"off\", expected off alone on a level");
    EXPECT_EQ(rules_of(zone + rule + "redis_rate_limit_dry_run maybe;"),
              "3: redis_rate_limit_dry_run: expected on or off");
    EXPECT_NE(rules_of("map $remote_addr $a { default $b; } map $remote_addr $b { x $a; }\n"
                       "redis_rate_limit_zone $a zone=z:10m;" +
                       rule)
                  .find("the value of $a depends on itself"),
              std::string::npos);
    EXPECT_EQ(rules_of(zone), "no redis_rate_limit is in the file");
    EXPECT_EQ(rules_of("redis_rate_limit zone=y algorithm=gcra limit=1 window=1;"),
              "1: redis_rate_limit: invalid zone \"y\", expected a zone that a "
              "redis_rate_limit_zone defines");
    EXPECT_EQ(
        rules_of(std::string(zone) + "redis_rate_limit zone=z algorithm=gcra limit=x window=1;"),
        "2: redis_rate_limit: invalid limit \"x\", expected a whole number from 0 to "
        "1000000000");
    EXPECT_TRUE(rules_of(std::string(zone) +
                         "map $remote_addr $l { ~x 1; }\n"
                         "redis_rate_limit zone=z algorithm=gcra limit=$l window=1;")
                    .ends_with("2: map: cannot evaluate \"~x\", expected exact texts and default "
                               "with a value each"));
}

} // namespace
} // namespace replay
