#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace rate_limit {
namespace {

using namespace std::string_literals;

std::optional<std::string> decoded(std::string_view text) {
    std::string out(text.size(), '?');
    const auto found = decode_percent(text, out);
    return found ? std::optional(std::string(*found)) : std::nullopt;
}

template <typename Piece>
std::string written(Piece piece) {
    std::array<char, 4096> out;
    TextWriter writer(out);
    writer << piece;
    return {out.data(), writer.size()};
}

std::string percent_encoded(std::string_view bytes) {
    return written(UrlEncoded{bytes});
}

std::string readable(std::string_view bytes, size_t most = 256) {
    return written(Readable{bytes, most});
}

std::string all_bytes() {
    std::string bytes;
    for (int byte = 0; byte < 256; ++byte) {
        bytes += static_cast<char>(byte);
    }
    return bytes;
}

TEST(DecodePercent, TakesAnyByte) {
    EXPECT_EQ(decoded("a%2Fb%2fc"), "a/b/c");
    EXPECT_EQ(decoded("%00%ff%FF"), "\0\xff\xff"s);
    EXPECT_EQ(decoded("%25%32%35"), "%25");
    EXPECT_EQ(decoded(""), "");
    EXPECT_EQ(decoded("plain=text"), "plain=text");
}

TEST(DecodePercent, TakesAPlusForAPlus) {
    EXPECT_EQ(decoded("a+b"), "a+b");
}

TEST(DecodePercent, RefusesWhatIsCutOffOrNotHex) {
    for (const std::string_view text :
         {"%", "a%", "%4", "%4g", "%g4", "%%41", "%-1", "%+1", "% 1"}) {
        EXPECT_EQ(decoded(text), std::nullopt) << text;
    }
}

TEST(UrlEncoded, KeepsTheUnreservedCharactersOnly) {
    EXPECT_EQ(percent_encoded("AZaz09-._~"), "AZaz09-._~");
    EXPECT_EQ(percent_encoded("a b&c=d+e%f/g:h#"), "a%20b%26c%3Dd%2Be%25f%2Fg%3Ah%23");
    EXPECT_EQ(percent_encoded("\0\xff"s), "%00%FF");
}

TEST(UrlEncoded, IsReadBack) {
    EXPECT_EQ(decoded(percent_encoded(all_bytes())), all_bytes());
}

TEST(Readable, ShowsTextAsItIs) {
    EXPECT_EQ(readable("203.0.113.7 \"quoted\" <b>"), "203.0.113.7 \"quoted\" <b>");
    EXPECT_EQ(readable("\u00e9\u20ac\U0001F600"), "\u00e9\u20ac\U0001F600");
}

TEST(Readable, EscapesControlsAndBackslashes) {
    EXPECT_EQ(readable("\0\n\x1b[1m\x7f\\"s), "\\x00\\x0a\\x1b[1m\\x7f\\x5c");
    EXPECT_EQ(readable("\u0080\u009f"), "\\xc2\\x80\\xc2\\x9f");
    EXPECT_EQ(readable("\u00a0"), "\u00a0");
}

TEST(Readable, EscapesWhatIsNoUtf8) {
    EXPECT_EQ(readable("\xff\xc3"), "\\xff\\xc3");
    EXPECT_EQ(readable("\xc0\xaf"), "\\xc0\\xaf");                   // a longer form of a slash
    EXPECT_EQ(readable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          // the same
    EXPECT_EQ(readable("\xed\xa0\x80"), "\\xed\\xa0\\x80");          // a surrogate
    EXPECT_EQ(readable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); // beyond Unicode
    EXPECT_EQ(readable("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf"); // a longer form
    EXPECT_EQ(readable("\xe2\x82z"), "\\xe2\\x82z");                 // cut off
    EXPECT_EQ(readable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

TEST(Readable, IsCutBetweenCharacters) {
    EXPECT_EQ(readable("abc", 2), "ab");
    EXPECT_EQ(readable("a\u20acb", 3), "a");
    EXPECT_EQ(readable("a\u20acb", 4), "a\u20ac");
    EXPECT_EQ(readable("a\nb", 4), "a");
    EXPECT_EQ(readable("\u0080", 7), "");
    EXPECT_EQ(readable(std::string(1000, '\xff'), 256), readable(std::string(64, '\xff')));
}

TEST(Readable, IsAlwaysUtf8) {
    for (size_t most = 0; most < 40; ++most) {
        EXPECT_TRUE(is_utf8(readable(all_bytes() + "\u20ac\U0001F600" + all_bytes(), most)));
    }
}

TEST(IsUtf8, KnowsTheEndsOfItsRanges) {
    for (const std::string_view text :
         {"", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        EXPECT_TRUE(is_utf8(text)) << text;
    }
    for (const std::string_view text :
         {"\x80", "\xc1\xbf", "\xdf", "\xdf\xc0", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xef\xbf",
          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"}) {
        EXPECT_FALSE(is_utf8(text)) << text;
    }
}

} // namespace
} // namespace rate_limit
