#include "text_writer.hpp"

#include <array>

namespace rate_limit {

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
