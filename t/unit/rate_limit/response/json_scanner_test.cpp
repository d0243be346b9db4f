#include "rate_limit/response/json_scanner.hpp"

#include "unit/allocations.hpp"
#include "unit/rate_limit/response/response_test.hpp"

#include <string>

namespace rate_limit {
namespace {

std::string repeated(size_t count, const std::string &text) {
    std::string all;
    for (size_t i = 0; i < count; ++i) {
        all += text;
    }
    return all;
}

TEST(JsonScanner, MemberNamesLeadFromTheRoot) {
    EXPECT_EQ(value_of("usage.total_tokens", R"({"usage":{"total_tokens":42}})"), "42");
    EXPECT_EQ(value_of("total_tokens", R"({"usage":{"total_tokens":42}})"), "");
    EXPECT_EQ(value_of("usage.total_tokens", R"({"x":{"usage":{"total_tokens":42}}})"), "");
    EXPECT_EQ(value_of("usage.total_tokens", R"([{"usage":{"total_tokens":42}}])"), "");
    EXPECT_EQ(value_of("a.b", R"({"a":{"c":{"b":1}},"b":2,"a.b":3})"), "");
    EXPECT_EQ(value_of("a", "7"), "");
}

TEST(JsonScanner, ANameIsTheWholeOne) {
    EXPECT_EQ(value_of("token", R"({"tokens":1,"toke":2,"":3,"Token":4,"token ":5})"), "");
    EXPECT_EQ(value_of("ab|abc|a", R"({"abc":3})"), "3");
    EXPECT_EQ(value_of("ab+abc+a", R"({"abc":3,"ab":20,"a":100})"), "123");
}

TEST(JsonScanner, AnIndexLeadsToOneElement) {
    constexpr std::string_view body = R"({"n":[10,{"x":1},[7,8],13]})";
    EXPECT_EQ(value_of("n[0]", body), "10");
    EXPECT_EQ(value_of("n[1].x", body), "1");
    EXPECT_EQ(value_of("n[2][1]", body), "8");
    EXPECT_EQ(value_of("n[3]", body), "13");
    EXPECT_EQ(value_of("n[4]", body), "");
    EXPECT_EQ(value_of("n[2]", body), "");
    EXPECT_EQ(value_of("[1]", "[5,6,7]"), "6");
    EXPECT_EQ(value_of("[0]", R"({"0":5})"), "") << "an object has no index";
    EXPECT_EQ(value_of("[\"0\"]", "[5]"), "") << "an array has no names";
    EXPECT_EQ(value_of("0", R"({"0":5})"), "5");
}

TEST(JsonScanner, StarsTakeTheLastMatchOfAny) {
    EXPECT_EQ(value_of("[*].n", R"([{"n":1},{"n":2},{"m":3}])"), "2");
    EXPECT_EQ(value_of("*", R"({"a":1,"b":2})"), "2");
    EXPECT_EQ(value_of("models.*.n", R"({"models":{"x":{"n":1},"y":{"n":2},"z":{}}})"), "2");
    EXPECT_EQ(value_of("a[*][*]", R"({"a":[[1,2],[],[3]]})"), "3");
    EXPECT_EQ(value_of("a[*]", R"({"a":{"x":1}})"), "") << "an element of any array";
    EXPECT_EQ(value_of("a.*", R"({"a":[1]})"), "") << "a member of any object";
    EXPECT_EQ(value_of("a[1]+a[*]", R"({"a":[1,20,300]})"), "320");
    EXPECT_EQ(value_of("a.b+a.*", R"({"a":{"b":1,"c":2}})"), "3");
}

TEST(JsonScanner, NamesWithOtherCharactersAreQuoted) {
    EXPECT_EQ(value_of("[\"a.b\"]", R"({"a":{"b":1},"a.b":2})"), "2");
    EXPECT_EQ(value_of("x[\"a-b\"].c", R"({"x":{"a-b":{"c":3}}})"), "3");
    EXPECT_EQ(value_of("x.[\"a b\"]", R"({"x":{"a b":4}})"), "4");
    EXPECT_EQ(value_of("[\"a\\\"b\"]", R"({"a\"b":5})"), "5");
    EXPECT_EQ(value_of("[\"a\\\\b\"]", R"({"a\\b":6})"), "6");
    EXPECT_EQ(value_of("[\"]\"]", R"({"]":7})"), "7");
    EXPECT_EQ(value_of("[\"\"]", R"({"":8})"), "8");
    EXPECT_EQ(value_of("gr\xc3\xb6\xc3\x9f"
                       "e",
                       "{\"gr\xc3\xb6\xc3\x9f"
                       "e\":9}"),
              "9");
}

TEST(JsonScanner, NamesMayBeWrittenWithEscapes) {
    EXPECT_EQ(value_of("usage", R"({"\u0075s\u0061ge":1})"), "1");
    EXPECT_EQ(value_of("usage", R"({"\u0075s\u0061g":1})"), "");
    EXPECT_EQ(value_of("[\"a/b\"]", R"({"a\/b":2})"), "2");
    EXPECT_EQ(value_of("[\"\b\f\n\r\t\"]", R"({"\b\f\n\r\t":3})"), "3");
    EXPECT_EQ(value_of("\xc3\xa4", R"({"\u00E4":4})"), "4");
    EXPECT_EQ(value_of("\xe2\x82\xac", R"({"\u20ac":5})"), "5");
    EXPECT_EQ(value_of("\xf0\x9f\x98\x80", R"({"\ud83d\uDE00":6})"), "6");
    EXPECT_EQ(value_of("a", R"({"\u00zz":1,"a\u":2,"\u006":3,"a":4})"), "4");
    EXPECT_EQ(value_of("u", R"({"\u":1})"), "");
    EXPECT_EQ(value_of("*", R"({"\u":1})"), "1");
    EXPECT_EQ(value_of("x|a", R"({"\ud83dx":1,"\ude00":2,"\ud83d\n":2,"\ud83d":3,"a":4})"), "4");
}

TEST(JsonScanner, HalfASurrogatePairIsNoCharacter) {
    const std::string high = "\xed\xa0\xbd"; // as if UTF-8 had it
    EXPECT_EQ(value_of("[\"" + high + "\"]|x", R"({"\ud83d":1})"), "");
    EXPECT_EQ(value_of("a", R"({"\ud83da":1})"), "");
    EXPECT_EQ(value_of("a", R"({"\ude00a":1})"), "");
    EXPECT_EQ(value_of("[\"\"]", R"({"\ud83d":1})"), "");
    EXPECT_EQ(value_of("a", R"({"\ud83d\u0061":1})"), "");
    EXPECT_EQ(value_of("\xf0\x9f\x98\x80", R"({"\ud83d\ud83d\ude00":1})"), "");
}

TEST(JsonScanner, OfEachPathTheLastNumberCounts) {
    EXPECT_EQ(value_of("a", R"({"a":1,"a":2})"), "2");
    EXPECT_EQ(value_of("u.a", R"({"u":{"a":5},"u":{"b":6},"u":{"a":3}})"), "3");
}

TEST(JsonScanner, ReadsWholeNumbers) {
    for (const char *number : {"0", "7", "12", "1000000000"}) {
        EXPECT_EQ(value_of("a", std::string("{\"a\":") + number + "}"), number);
    }
    EXPECT_EQ(value_of("a", R"({"a":007})"), "7");
    for (const char *other :
         {"-1",    "-1.0", "1.5",   "1.05", "1.",     "1..0",     "1.0.0", "1.0e3",
          "1e3",   "1E3",  "+1",    "0x10", ".0",     ".",        "true",  "1.0a",
          "false", "nul",  "nulls", "n",    "\"12\"", "\"1.0\"",  "\"\"",  "[12]",
          "[]",    "{}",   "12a",   "NaN",  "1_000",  "\xd9\xa1", "n.0",   "{\"b\":12}"}) {
        EXPECT_EQ(value_of("a", std::string("{\"a\":") + other + "}"), "") << other;
        EXPECT_EQ(value_of("a", std::string("{\"a\":3,\"a\":") + other + "}"), "3") << other;
        EXPECT_EQ(value_of("a", std::string("{\"a\":") + other + ",\"a\":4}"), "4") << other;
    }
}

TEST(JsonScanner, AWholeNumberMayHaveAFractionOfZeros) {
    EXPECT_EQ(value_of("a", R"({"a":418.0})"), "418");
    EXPECT_EQ(value_of("a", R"({"a":0.0})"), "0");
    EXPECT_EQ(value_of("a", R"({"a":12.000,"b":1.5})"), "12");
    EXPECT_EQ(value_of("a", "{\"a\":7." + std::string(400, '0') + "}"), "7");
    EXPECT_EQ(value_of("a", "{\"a\":99999999999.0}"), "1000000000");
    EXPECT_EQ(value_of("a", R"({"a":12.0)"), "") << "the byte behind it has not come";
}

TEST(JsonScanner, MoreThanAThousandMillionCountsAsThat) {
    EXPECT_EQ(value_of("a", R"({"a":999999999})"), "999999999");
    EXPECT_EQ(value_of("a", R"({"a":1000000001})"), "1000000000");
    EXPECT_EQ(value_of("a", R"({"a":4294967297})"), "1000000000");
    EXPECT_EQ(value_of("a", "{\"a\":" + std::string(400, '9') + "}"), "1000000000");
    EXPECT_EQ(value_of("a", "{\"a\":" + std::string(400, '0') + "5}"), "5");
}

TEST(JsonScanner, NullIsAsIfItWereNotThere) {
    EXPECT_EQ(value_of("a", R"({"a":null})"), "");
    EXPECT_EQ(value_of("a", R"({"a":5,"a":null})"), "5");
    EXPECT_EQ(value_of("a+b", R"({"a":5,"b":null})"), "");
    EXPECT_EQ(value_of("usage.n", R"({"usage":null,"usage":{"n":1}})"), "1");
}

PathSet ignored_of(std::string_view expression, std::string_view body) {
    const ResponseVariable variable(expression);
    BodyScanner scanner(BodyFormat::text, variable.paths);
    PathSet ignored = 0;
    for (const char &c : body) {
        scanner.scan({&c, 1});
        ignored |= scanner.take_ignored();
    }
    EXPECT_EQ(scanner.take_ignored(), 0u);
    return ignored;
}

TEST(JsonScanner, TellsWhatItIgnores) {
    for (const char *other : {"-1", "1.5", "true", "\"12\"", "[12]", "{}", "nul"}) {
        EXPECT_EQ(ignored_of("x+a", std::string("{\"a\":") + other + "}"), 2u) << other;
    }
    EXPECT_EQ(ignored_of("a+b", R"({"a":"","b":""})"), 3u);
    EXPECT_EQ(ignored_of("a+a.b", R"({"a":{"b":1}})"), 1u);
    EXPECT_EQ(ignored_of("a+b.c", R"({"a":12,"b":{},"c":"","d":null})"), 0u);
    EXPECT_EQ(ignored_of("a", R"({"a":null})"), 0u);
    EXPECT_EQ(ignored_of("a.b", R"({"a":"text"})"), 0u) << "no path ends there";
}

TEST(JsonScanner, ANumberCountsOnceTheByteBehindItHasCome) {
    for (const char *behind : {",", "}", " ", "\n", "\r", "\t"}) {
        EXPECT_EQ(value_of("a", R"({"a":12)"), "");
        EXPECT_EQ(value_of("a", std::string(R"({"a":12)") + behind), "12");
    }
    EXPECT_EQ(value_of("a[1]", R"({"a":[1,25])"), "25");
    EXPECT_EQ(value_of("a", R"({"a":5,"a":12)"), "5");
}

TEST(JsonScanner, PassesOverStringsUnchecked) {
    EXPECT_EQ(value_of("a", R"({"s":"\"a\":1,}]{[\\","a":2})"), "2");
    EXPECT_EQ(value_of("a", R"({"s":"\\\\\"","a":3})"), "3");
    EXPECT_EQ(value_of("a", R"({"s":"\u12\x\"","\"":1,"a":4})"), "4");
    EXPECT_EQ(value_of("a", std::string("{\"s\":\"\0\x01\n\xff\",\"a\":5}", 18)), "5");
    EXPECT_EQ(value_of("u.a", R"({"u":{"\\":1,"\"a":2,"a":6}})"), "6");
    EXPECT_EQ(value_of("u.a", R"({"x":{"\\":1,"\"a":2,"a":6},"u":{"a":7}})"), "7");
}

TEST(JsonScanner, PassesOverOtherScalarsUnread) {
    EXPECT_EQ(value_of("a", R"({"x":tru,"y":-1.5e+300,"z":what.ever,"a":1})"), "1");
}

TEST(JsonScanner, SpacesMayStandBetweenAll) {
    EXPECT_EQ(value_of("a.b[1]", " \r\n\t{ \"a\" : { \"b\" :\n[ 1 , 2 ] } } \n"), "2");
}

TEST(JsonScanner, ATextThatCannotBeReadOnIsPassedOver) {
    for (const char *broken : {"{]",
                               "[}",
                               "{,",
                               "{\"x\"}",
                               "{\"x\":}",
                               "{\"x\":]",
                               "{\"x\":,",
                               "{\"x\"1",
                               "{\"x\":1:2",
                               "{\"x\":1 2",
                               "{\"x\":\"\"\"\"",
                               "{\"x\"::",
                               "{\"x\":[1}",
                               "{\"x\":{}]",
                               "{x",
                               "{\"x\",",
                               "]",
                               "}",
                               ",",
                               ":",
                               "{\"x\":[,",
                               "{\"x\":[:",
                               "{\"x\":1{",
                               "{\"x\":1[",
                               "{1"}) {
        EXPECT_EQ(value_of("a", broken + std::string(R"(,"a":1})")), "") << broken;
    }
    EXPECT_EQ(value_of("a", R"({"a":1,]"a":2})"), "1") << "what came before stays";
}

TEST(JsonScanner, OfABodyOfOneTextWhatFollowsIsPassedOver) {
    EXPECT_EQ(value_of("a", R"({"a":1}{"a":2})"), "1");
    EXPECT_EQ(value_of("a", "{\"a\":1}\n\n{\"a\":2}"), "1");
    EXPECT_EQ(value_of("a", R"({} {"a":2})"), "");
    EXPECT_EQ(value_of("a", R"("" {"a":2})"), "");
    EXPECT_EQ(value_of("a", R"(1 {"a":2})"), "");
    EXPECT_EQ(value_of("a", R"(1,"a":2)"), "");
    EXPECT_EQ(value_of("[1]", "1,2]"), "");
    EXPECT_EQ(value_of("a", ""), "");
}

TEST(JsonScanner, ReadsADepthOf64) {
    EXPECT_EQ(
        value_of("a" + repeated(63, ".a"), repeated(64, R"({"a":)") + "5" + repeated(64, "}")),
        "5");
    EXPECT_EQ(value_of("[0]" + repeated(63, "[0]"), repeated(64, "[") + "5]"), "5");
    const std::string deepest = R"({"x":)" + repeated(63, "[") + repeated(63, "]") + R"(,"a":1})";
    EXPECT_EQ(value_of("a", deepest), "1");
    const std::string deeper = R"({"x":)" + repeated(64, "[") + repeated(64, "]") + R"(,"a":1})";
    EXPECT_EQ(value_of("a", deeper), "");
    const std::string before =
        R"({"a":2,"x":)" + repeated(64, "[") + repeated(64, "]") + R"(,"a":1})";
    EXPECT_EQ(value_of("a", before), "2");
}

TEST(JsonScanner, ArraysAndObjectsMayFollowEachOtherAtEachDepth) {
    EXPECT_EQ(value_of("a[2].b[0]", R"({"a":[[{"b":[1]}],{"b":[2]},{"b":[3],"c":[[]]},[]]})"), "3");
    EXPECT_EQ(value_of("b.a", R"([],{"b":{"a":1}})"), "");
    EXPECT_EQ(value_of("a", R"({"x":[{"a":1},[{"a":2}]],"a":3})"), "3");
}

TEST(JsonScanner, TakesMemoryOfAFixedSize) {
    EXPECT_LE(sizeof(BodyScanner), 1024u);
    const ResponseVariable variable("a.b[0]+[\"long\"].*");
    const std::string body = R"({"long":{")" + std::string(1 << 18, 'n') + R"(":1,"s":")" +
                             std::string(1 << 18, 's') + R"("},"a":{"b":[)" +
                             std::string(1 << 18, '1') + "]}}";
    const Allocations allocations = allocations_of([&] {
        BodyScanner scanner(BodyFormat::text, variable.paths);
        scanner.scan(body);
        EXPECT_EQ(scanner.numbers().seen, 3u);
    });
    EXPECT_EQ(allocations.count, 0u);
}

} // namespace
} // namespace rate_limit
