#include "rate_limit/text/text_writer.hpp"

#include <charconv>

namespace rate_limit {

std::string_view write_number(uint64_t number, NumberBuffer &out) {
    const auto [end, error] = std::to_chars(out.data(), out.data() + out.size(), number);
    return {out.data(), static_cast<size_t>(end - out.data())};
}

TextWriter &TextWriter::operator<<(Seconds seconds) {
    constexpr uint64_t second = 1'000'000;
    const auto time = static_cast<uint64_t>(seconds.time.count());
    *this << time / second;
    std::array<char, 7> digits{'.', '0', '0', '0', '0', '0', '0'};
    uint64_t fraction = time % second;
    size_t length = 0;
    for (size_t i = digits.size() - 1; fraction > 0; --i, fraction /= 10) {
        digits[i] = static_cast<char>('0' + fraction % 10);
        length = length == 0 && digits[i] != '0' ? i + 1 : length;
    }
    return *this << std::string_view(digits.data(), length);
}

} // namespace rate_limit
