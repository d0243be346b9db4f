#include "rate_limit/response/body_scanner.hpp"

#include "unit/rate_limit/response/response_test.hpp"

#include <string>

namespace rate_limit {
namespace {

std::string in_lines(std::string_view body, std::string_view expression = "a") {
    return value_of(expression, body, BodyFormat::lines);
}

std::string in_events(std::string_view body, std::string_view expression = "a") {
    return value_of(expression, body, BodyFormat::events);
}

TEST(BodyFormat, IsThatOfTheContentType) {
    using enum BodyFormat;
    EXPECT_EQ(body_format_of("application/json"), text);
    EXPECT_EQ(body_format_of("application/json; charset=utf-8"), text);
    EXPECT_EQ(body_format_of("application/json;charset=utf-8"), text);
    EXPECT_EQ(body_format_of("application/json ; x"), text);
    EXPECT_EQ(body_format_of("Application/JSON"), text);
    EXPECT_EQ(body_format_of("application/problem+json"), text);
    EXPECT_EQ(body_format_of("application/vnd.api+json; v=1"), text);
    EXPECT_EQ(body_format_of("application/x-ndjson"), lines);
    EXPECT_EQ(body_format_of("application/jsonl"), lines);
    EXPECT_EQ(body_format_of("application/stream+json"), lines);
    EXPECT_EQ(body_format_of("text/event-stream"), events);
    EXPECT_EQ(body_format_of("text/event-stream; charset=utf-8"), events);
    for (const char *other :
         {"", "json", "text/plain", "text/html", "application/jsonp", "application/xml",
          "application/json-seq", "text/event-streams", "text/plain; x=+json", "+jso"}) {
        EXPECT_EQ(body_format_of(other), std::nullopt) << other;
    }
}

TEST(BodyScanner, EachLineIsAText) {
    EXPECT_EQ(in_lines("{\"a\":1}\n{\"a\":2}\n"), "2");
    EXPECT_EQ(in_lines("{\"a\":1}\r\n{\"b\":2}\r\n", "a+b"), "3");
    EXPECT_EQ(in_lines("{\"a\":1}\n\n\n{\"a\":3}"), "3") << "the last line has no end";
    EXPECT_EQ(in_lines("{\"a\":1}{\"a\":2}\n"), "1") << "what follows a text on its line";
    EXPECT_EQ(in_lines("{\"a\":1,\n\"a\":2}\n{\"b\":1}\n"), "1");
    EXPECT_EQ(in_lines("{\"s\":\"\n{\"a\":4}\n"), "4");
    EXPECT_EQ(in_lines("no JSON\n[DONE]\n{\"a\":5}\n}]\n"), "5");
    EXPECT_EQ(in_lines("{\"a\":6\n"), "6");
    EXPECT_EQ(in_lines("{\"a\":6"), "");
    EXPECT_EQ(in_lines("{\"u\":{\n\"a\":7}\n", "u.a"), "");
}

TEST(BodyScanner, TheDataOfEachEventIsAText) {
    EXPECT_EQ(in_events("data: {\"a\":1}\n\ndata: {\"a\":2}\n\n"), "2");
    EXPECT_EQ(in_events("event: x\nid: 1\ndata: {\"a\":1}\nretry: 5\n\n"), "1");
    EXPECT_EQ(in_events("data:{\"a\":3}\n\n"), "3") << "no space";
    EXPECT_EQ(in_events("data:  {\"a\":3}\n\n"), "3") << "two";
    EXPECT_EQ(in_events("data: {\"a\":1}\n\ndata: [DONE]\n\n"), "1");
    EXPECT_EQ(in_events("data: [DONE]\n\ndata: {\"a\":4}\n\n"), "4");
    EXPECT_EQ(in_events("data: no JSON\n\ndata: {\"a\":5}\n\n"), "5");
    EXPECT_EQ(in_events(": {\"a\":1}\n\n:\n\n"), "") << "comments";
    EXPECT_EQ(
        in_events("dat: {\"a\":1}\n\ndatas: {\"a\":1}\n\nData: {\"a\":1}\n\n data: {\"a\":1}\n\n"),
        "");
    EXPECT_EQ(in_events("event: {\"a\":1}\nid: {\"a\":2}\n\n"), "") << "other fields";
    EXPECT_EQ(in_events("{\"a\":1}\n\n"), "");
    EXPECT_EQ(in_events("data: {\"a\":1} {\"a\":2}\n\n"), "1") << "one text an event";
}

TEST(BodyScanner, LinesOfDataAreJoinedByALineFeed) {
    EXPECT_EQ(in_events("data: {\ndata: \"a\":\ndata: 6}\n\n"), "6");
    EXPECT_EQ(in_events("data: {\nevent: x\n: y\ndata\ndata:\ndata: \"a\":7}\n\n"), "7");
    EXPECT_EQ(in_events("data: {\"a\":1\ndata: 2}\n\n"), "1") << "1, a line feed, 2: no number 12";
    EXPECT_EQ(in_events("data: {\"a\ndata: b\":1}\n\n", "[\"a\nb\"]"), "1");
    EXPECT_EQ(in_events("data: {\"a\":1}\ndata: {\"a\":2}\n\n"), "1") << "one text";
    EXPECT_EQ(in_events("data: {\n\ndata: \"a\":1}\n\n"), "") << "two events";
}

TEST(BodyScanner, LinesEndByLfCrAndBoth) {
    for (const std::string end : {"\n", "\r", "\r\n"}) {
        EXPECT_EQ(
            in_events("data: {\"a\":" + end + "data: 8}" + end + end + "data: [DONE]" + end + end),
            "8");
        EXPECT_EQ(in_events("data: {" + end + end + "data: \"a\":1}" + end + end), "");
        EXPECT_EQ(
            in_events("data: {\"a\":9}" + end + "x" + end + end + "data: {\"b\":1}" + end, "a+b"),
            "10");
    }
    EXPECT_EQ(in_events("data: {\r\ndata: \"a\":1}\r\n\r\n"), "1") << "CRLF is one end, not two";
    EXPECT_EQ(in_events("data: {\n\rdata: \"a\":1}\n\n"), "") << "LFCR is two";
    EXPECT_EQ(in_events("\ndata: {\"a\":2}\r\rdata: {\"a\":3}\n\r\n"), "3");
}

TEST(BodyScanner, TheLastEventMayHaveNoEnd) {
    EXPECT_EQ(in_events("data: {\"a\":1}\n"), "1");
    EXPECT_EQ(in_events("data: {\"a\":2}"), "2");
    EXPECT_EQ(in_events("data: {\"a\":3\n"), "3");
    EXPECT_EQ(in_events("data: {\"a\":3"), "");
    EXPECT_EQ(in_events("data: {\"a\":1}\n\ndata: {\"a\":4"), "1");
}

TEST(BodyScanner, AByteOrderMarkBeforeTheFirstTextIsSkipped) {
    const std::string mark = "\xef\xbb\xbf";
    EXPECT_EQ(value_of("a", mark + "{\"a\":1}"), "1");
    EXPECT_EQ(in_lines(mark + "{\"a\":1}\n"), "1");
    EXPECT_EQ(in_events(mark + "data: {\"a\":1}\n\n"), "1");
    EXPECT_EQ(in_events(mark + mark + "data: {\"a\":1}\n\n"), "") << "one only";
    EXPECT_EQ(in_lines("{\"a\":1}\n" + mark + "{\"a\":2}\n"), "1") << "not before others";
    EXPECT_EQ(value_of("a", "\xef\xbb{\"a\":1}"), "") << "half of one is none";
    EXPECT_EQ(value_of("a", "\xef{\"a\":1}"), "");
    EXPECT_EQ(in_lines("\xef\xbb\n{\"a\":2}\n"), "2");
    EXPECT_EQ(value_of("a", mark), "");
    EXPECT_EQ(value_of("a", "\xef\xbb"), "");
}

TEST(BodyScanner, ReadsLongLinesOfManyPieces) {
    const std::string text = "data: {\"s\":\"" + std::string(100'000, 'x') + "\",\"a\":5}\n\n";
    const ResponseVariable variable("a");
    for (const size_t size : {1, 7, 4096}) {
        EXPECT_EQ(value_in_pieces(variable, BodyFormat::events, text, 0, size), "5");
    }
}

} // namespace
} // namespace rate_limit
