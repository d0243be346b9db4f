#include "rate_limit/calendar/time_zone.hpp"

#include <algorithm>

#ifdef REDIS_RATE_LIMIT_HAS_CCTZ
#include <cctz/civil_time.h>
#include <cctz/time_zone.h>
#endif

namespace rate_limit {

namespace {

using std::chrono::seconds;

class Utc final : public TimeZone {
  public:
    Day day_at(seconds unix_time) const override { return rate_limit::day_at(unix_time); }
    seconds begin_of(Day day) const override { return std::chrono::hours{24} * day; }
};

#ifdef REDIS_RATE_LIMIT_HAS_CCTZ

class SystemZone final : public TimeZone {
  public:
    explicit SystemZone(const cctz::time_zone &zone) : zone_(zone) {}

    Day day_at(seconds unix_time) const override {
        return cctz::civil_day(cctz::convert(Instant(unix_time), zone_)) - cctz::civil_day();
    }
    seconds begin_of(Day day) const override {
        const auto midnight = zone_.lookup(cctz::civil_second(cctz::civil_day() + day));
        const bool is_skipped = midnight.kind == cctz::time_zone::civil_lookup::SKIPPED;
        return (is_skipped ? midnight.trans : midnight.pre).time_since_epoch();
    }

  private:
    using Instant = cctz::time_point<cctz::seconds>; // of a clock that begins in 1970, as civil_day

    cctz::time_zone zone_;
};

#endif

bool is_part_of_name(std::string_view text) {
    const auto is_allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '+' || c == '-';
    };
    return !text.empty() && std::ranges::all_of(text, is_allowed);
}

} // namespace

bool is_time_zone_name(std::string_view text) {
    for (const std::string_view other : {"localtime", "posixrules", "Factory"}) {
        if (text == other) {
            return false;
        }
    }
    const bool is_copy = text.starts_with("posix/") || text.starts_with("right/");
    if (text.size() > longest_time_zone_name || is_copy) {
        return false;
    }
    for (size_t slash = text.find('/'); slash != std::string_view::npos; slash = text.find('/')) {
        if (!is_part_of_name(text.substr(0, slash))) {
            return false;
        }
        text.remove_prefix(slash + 1);
    }
    return is_part_of_name(text);
}

bool has_time_zones() {
#ifdef REDIS_RATE_LIMIT_HAS_CCTZ
    return true;
#else
    return false;
#endif
}

std::shared_ptr<const TimeZone> find_time_zone(const std::string &name) {
    if (name == utc) {
        return std::make_shared<Utc>();
    }
#ifdef REDIS_RATE_LIMIT_HAS_CCTZ
    cctz::time_zone zone;
    if (is_time_zone_name(name) && cctz::load_time_zone(name, &zone)) {
        return std::make_shared<SystemZone>(zone);
    }
#endif
    return nullptr;
}

} // namespace rate_limit
