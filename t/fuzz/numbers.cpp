// What users write: taken where a simple reader takes it, with the same meaning. And what of it
// scripts are sent: whole numbers that Lua holds, exact whatever the parts of a microsecond.

#include "rate_limit/algorithms/local.hpp"
#include "rate_limit/text/header_values.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/times_and_numbers.hpp"
#include "redis_client/script/arguments.hpp"
#include "rules.hpp"
#include "targets.hpp"

#include <optional>
#include <string>
#include <vector>

namespace fuzz {
namespace {

using rate_limit::Quota;
using std::chrono::microseconds;

__extension__ using Wide = unsigned __int128;

constexpr std::string_view digits = "0123456789";

/// Digit by digit, as on paper.
std::optional<uint64_t> number_of(std::string_view text, uint64_t largest) {
    Wide number = 0;
    for (const char c : text) {
        const size_t digit = digits.find(c);
        if (digit == std::string_view::npos) {
            return std::nullopt;
        }
        number = std::min<Wide>(number * 10 + digit, Wide{1} << 64);
    }
    const bool is_number = !text.empty() && number <= largest;
    return is_number ? std::optional(static_cast<uint64_t>(number)) : std::nullopt;
}

void check_text(std::string_view text, uint64_t largest) {
    require(rate_limit::parse_whole_number(text, largest) == number_of(text, largest),
            "a number is taken for what it is");

    constexpr std::string_view name_characters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
    require(rate_limit::is_name(text) ==
                (!text.empty() && text.size() <= 64 &&
                 text.find_first_not_of(name_characters) == std::string_view::npos),
            "a name is 1 to 64 of its characters");

    const auto algorithm = rate_limit::algorithm_named(text);
    require(!algorithm || to_string(*algorithm) == text, "an algorithm has its own name");
}

void check_formatting(uint64_t number) {
    rate_limit::NumberBuffer buffer;
    const std::string_view written = rate_limit::write_number(number, buffer);
    require(number_of(written, UINT64_MAX) == number, "a number is written as it is read");
    require(written.size() == 1 || written.front() != '0', "no zeros stand in front");

    const microseconds time(static_cast<int64_t>(number / 2));
    const Wide seconds = rate_limit::seconds_up(time);
    const Wide exact = number / 2;
    require(seconds * 1'000'000 >= exact && seconds * 1'000'000 < exact + 1'000'000,
            "seconds are rounded up");
}

Wide window_us(const Quota &quota) {
    return static_cast<Wide>(microseconds(quota.window).count());
}

void check_quota(const Quota &quota) {
    const rate_limit::Interval interval(quota);
    const Wide limit = std::max<uint64_t>(quota.limit, 1);
    require(interval.length * limit == window_us(quota) * interval.parts,
            "an interval is a window's part");
    require(interval.parts == limit, "in as many parts as the limit");

    const auto refill = static_cast<Wide>(quota.refill().count());
    const bool is_paced = is_bucket(quota.algorithm) && quota.limit > 0;
    const Wide exact = is_paced ? quota.capacity() * window_us(quota) : window_us(quota) * limit;
    require(refill * limit >= exact && refill * limit < exact + limit,
            "a refill is as long as the capacity's intervals");
}

void check_part(const Quota &quota, uint64_t percent) {
    const Quota part = rate_limit::scaled(quota, percent);
    require(part.limit <= quota.limit && part.capacity() <= quota.capacity(),
            "a part is no more than the whole");
    require((part.capacity() == 0) == (quota.capacity() == 0), "nor is it nothing");
    require((part.capacity() < quota.cost) == (quota.capacity() < quota.cost),
            "and a request that the whole may grant, it may grant");
    const bool is_whole = part.limit == quota.limit && part.capacity() == quota.capacity() &&
                          part.delay == quota.delay;
    require(percent < 100 || is_whole, "all of a hundred is the whole");
}

std::vector<Wide> numbers_of(const redis_client::WireWords &words) {
    std::vector<Wide> numbers;
    std::string_view bytes = words.bytes();
    const auto take_line = [&bytes] {
        const size_t end = bytes.find("\r\n");
        require(end != std::string_view::npos, "a line ends");
        const std::string_view line = bytes.substr(0, end);
        bytes.remove_prefix(end + 2);
        return line;
    };
    while (!bytes.empty()) {
        const std::string_view size = take_line();
        const std::string_view word = take_line();
        require(size == "$" + std::to_string(word.size()), "a word has its size");
        numbers.push_back(number_of(word, uint64_t{1} << 53).value_or(UINT64_MAX));
    }
    require(numbers.size() == words.count(), "words are counted");
    return numbers;
}

/// Microseconds and parts of one.
bool is_time_of(Wide whole, Wide parts, const rate_limit::Interval &interval, Wide units) {
    return parts < interval.parts && whole * interval.parts + parts == units * interval.length;
}

void check_arguments(const Quota &quota, bool aligned) {
    const auto numbers = numbers_of(redis_client::check_arguments(quota, aligned));
    const bool has_word = rate_limit::traits_of(quota.algorithm).takes_aligned;
    for (size_t i = 0; i + (has_word ? 1 : 0) < numbers.size(); ++i) {
        require(numbers[i] <= Wide{1} << 53, "Lua holds each number");
    }
    if (!is_bucket(quota.algorithm)) {
        require(numbers[0] == quota.limit && numbers[1] == quota.cost &&
                    numbers[2] == window_us(quota) &&
                    numbers[3] * 1000 >= window_us(quota) + 5'000'000,
                "a window's numbers are sent");
        return;
    }
    const rate_limit::Interval interval(quota);
    const Wide cost = std::min(quota.cost, quota.capacity() + 1);
    require(is_time_of(numbers[0], numbers[1], interval, cost), "the cost's time is exact");
    require(is_time_of(numbers[2], numbers[3], interval, quota.capacity()),
            "the capacity's time is exact");
    require(numbers[4] % (Wide{1} << 32) == interval.parts, "and told in those parts");
    require(numbers[5] * 1000 >= numbers[2] + 5'000'000, "a key outlives its state");
}

} // namespace

void numbers(Input input) {
    const uint64_t largest = input.flag() ? UINT64_MAX : input.number(0, UINT64_MAX);
    const Quota quota = take_quota(input, input.one_of(rate_limit::all_algorithms));
    check_quota(quota);
    check_part(quota, input.number(1, 100));
    check_arguments(quota, input.flag());
    check_formatting(input.number(0, UINT64_MAX));
    check_text(input.rest(), largest);
}

} // namespace fuzz
