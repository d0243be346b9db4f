// What all pages do with a request before they answer it.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

/// Whether nginx has not asked `allow`, `deny` and the modules that authenticate: it skips them for
/// subrequests, as those of SSI, `auth_request` and `mirror`. What shows keys refuses these.
bool skips_access(const ngx_http_request_t *r);

/// Returns NGX_OK for GET and HEAD, and discards the request's body, which is of no interest.
/// Otherwise returns the status that the handler must return.
ngx_int_t accept_reader(ngx_http_request_t *r);

} // namespace nginx_module
