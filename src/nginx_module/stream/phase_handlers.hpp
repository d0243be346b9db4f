// When the rules of a session are applied; see limiter/limited_request.hpp for their road.
#pragma once

#include "nginx_module/stream/ngx.hpp"

namespace nginx_module::stream {

/// Applies the rules of the access phase. It runs in the phase SSL, which comes after all handlers
/// of the phase ACCESS whatever they returned: there `allow` would skip it.
ngx_int_t access_handler(ngx_stream_session_t *s) noexcept;

/// Applies the rules of the phase preread, and those of the access phase of a server that nginx
/// chose only later, by the name in the client's first bytes. Then the server's own content handler
/// goes on: this one stands in its place, because a handler of the phase PREREAD is skipped where
/// another has read such a name.
void content_handler(ngx_stream_session_t *s) noexcept;

/// Settles what a session turned out to cost. nginx calls this once for each session, when it ends.
/// It is always registered, because it also abandons the check of a session that still waits.
ngx_int_t log_handler(ngx_stream_session_t *s) noexcept;

} // namespace nginx_module::stream
