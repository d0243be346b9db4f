#include "redis_client/wire/redirect_error.hpp"

#include "rate_limit/text/times_and_numbers.hpp"
#include "redis_client/wire/endpoint.hpp"
#include "redis_client/wire/hash_slot.hpp"
#include "redis_client/wire/resp.hpp"

namespace redis_client {

std::optional<Redirect> parse_redirect(std::string_view error) {
    const std::string_view word = next_word(error);
    if (word != "MOVED" && word != "ASK") {
        return std::nullopt;
    }
    const auto slot = rate_limit::parse_whole_number(next_word(error), hash_slots - 1);
    const std::string_view endpoint = next_word(error);
    const size_t colon = endpoint.rfind(':'); // of several in an IPv6 address
    if (!slot || colon == std::string_view::npos) {
        return std::nullopt;
    }
    const auto port = rate_limit::parse_whole_number(endpoint.substr(colon + 1), 65'535);
    const std::string_view host = endpoint.substr(0, colon);
    if (!port || *port == 0 || host.size() > longest_host) {
        return std::nullopt;
    }
    return Redirect{.kind = word == "ASK" ? Redirect::Kind::ask : Redirect::Kind::moved,
                    .hash_slot = static_cast<uint16_t>(*slot),
                    .host = host == "?" ? std::string_view() : host,
                    .port = static_cast<uint16_t>(*port)};
}

} // namespace redis_client
