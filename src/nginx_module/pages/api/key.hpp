// The key of a client: as an API request names it, and as answers show it.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/json_writer.hpp"
#include "nginx_module/pages/api/parameters.hpp"

#include <optional>
#include <string_view>
#include <variant>

namespace nginx_module {

/// A client's key, in the request's pool.
struct ClientKey {
    std::optional<std::string_view> bytes; // what the zone's variables give; a digest has none
    std::string_view encoded;              // as in the keys of Redis
};

/// What a key is asked for. Overrides that older versions stored may have keys that no client has,
/// and can be deleted.
enum class KeyOf : uint8_t { client, stored_override };

/// Finds the key that the parameters name.
std::variant<ClientKey, ApiError> read_client_key(ngx_http_request_t *r, const limiter::Zone &zone,
                                                  const ApiParameters &parameters, KeyOf what);

/// Writes the members `key` and `key_encoded`, as far as the zone shows keys. A key of which only
/// the digest is known is shown as that.
void write_client_key(JsonWriter &json, ngx_pool_t *pool, const limiter::Zone &zone,
                      const ClientKey &key);

/// Returns the 64 hex digits that `key_sha256` takes, if the key is stored as a digest and the zone
/// shows keys.
std::optional<std::string_view> shown_digest(const limiter::Zone &zone,
                                             std::string_view encoded_key);

/// Returns a phrase for the middle of a log line, such as `, key "203.0.113.7"`, in the pool. It is
/// empty if the zone shows no keys.
std::string_view phrase_of_key(ngx_pool_t *pool, const limiter::Zone &zone, const ClientKey &key);

} // namespace nginx_module
