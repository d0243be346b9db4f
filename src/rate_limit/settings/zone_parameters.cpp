#include "rate_limit/settings/zone_parameters.hpp"

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/text/letter_case.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

namespace rate_limit {

namespace {

constexpr std::string_view of_names =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

const char *set_name_and_size(ZoneParameters &zone, std::string_view value) {
    const size_t colon = value.find(':');
    if (colon == std::string_view::npos) {
        return "name:size";
    }
    zone.name = value.substr(0, colon);
    if (!is_name(zone.name)) {
        return expected_name;
    }
    const auto size = parse_size(value.substr(colon + 1));
    zone.size = size.value_or(0);
    return size ? nullptr : "a size such as 10m";
}

constexpr Parameter<ZoneParameters> zone_parameters[] = {
    {"zone", set_name_and_size, Is::required},
    {"backend",
     [](ZoneParameters &zone, std::string_view value) -> const char * {
         zone.backend_name = value;
         return is_name(value) ? nullptr : expected_name;
     }},
    {"on_error",
     [](ZoneParameters &zone, std::string_view value) -> const char * {
         zone.on_error = value == "closed" ? OnError::closed
                         : value == "open" ? OnError::open
                                           : OnError::local;
         const bool is_known = value == "local" || value == "open" || value == "closed";
         return is_known ? nullptr : "local, open or closed";
     }},
    {"local_limit",
     [](ZoneParameters &zone, std::string_view value) -> const char * {
         const bool has_sign = value.ends_with('%');
         const auto number = parse_whole_number(value.substr(0, value.size() - has_sign), 100);
         zone.local_limit_percent = number.value_or(0);
         return has_sign && number && *number > 0 ? nullptr : "1% to 100%";
     }},
    {"deny_cache",
     [](ZoneParameters &zone, std::string_view value) -> const char * {
         if (value == "on") {
             return nullptr;
         }
         const auto time = parse_time(value);
         zone.deny_cache = value == "off" ? std::chrono::milliseconds{0} : time;
         const bool in_range = time.count() > 0 && time <= longest_window;
         return in_range || value == "off" ? nullptr : "on, off or a time from 1ms to 366d";
     }},
    {"top_keys",
     [](ZoneParameters &zone, std::string_view value) -> const char * {
         zone.has_top_keys = value == "on";
         return value == "on" || value == "off" ? nullptr : "on or off";
     }},
    {"show_keys",
     [](ZoneParameters &zone, std::string_view value) -> const char * {
         zone.show_keys = value == "hash"  ? ShowKeys::hash
                          : value == "off" ? ShowKeys::off
                                           : ShowKeys::on;
         const bool is_known = value == "on" || value == "hash" || value == "off";
         return is_known ? nullptr : "on, hash or off";
     }},
};

} // namespace

Refusal read_zone(std::span<const std::string_view> words, ZoneParameters &zone) {
    const auto is_zone = [](std::string_view word) { return word.starts_with("zone="); };
    if (is_zone(words[0]) && std::ranges::count_if(words, is_zone) == 1) {
        return refused("key", words[0], "a key such as $remote_addr before the parameters");
    }
    return set_parameters<ZoneParameters>(zone_parameters, words.subspan(1), zone);
}

std::string variable_in(std::string_view text) {
    if (text.starts_with("${") && text.ends_with('}')) {
        return in_lower_case(text.substr(2, text.size() - 3));
    }
    return in_lower_case(text.substr(text.starts_with('$') ? 1 : text.size()));
}

bool is_variable_name(std::string_view text) {
    return !text.empty() && text.find_first_not_of(of_names) == std::string_view::npos;
}

bool has_text_variables(std::string_view text) {
    bool has_variable = false;
    for (size_t sign = text.find('$'); sign != std::string_view::npos; sign = text.find('$')) {
        text.remove_prefix(sign + 1);
        text.remove_prefix(text.starts_with('{') ? 1 : 0);
        const std::string_view name = text.substr(0, text.find_first_not_of(of_names));
        if (in_lower_case(name) == variable_of_bytes) {
            return false;
        }
        has_variable = true;
    }
    return has_variable;
}

} // namespace rate_limit
