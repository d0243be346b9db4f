// What the module of stream shows the pages of http, which show its zones, too. The two may be
// files of their own, that nginx loads one after the other, or one of them alone.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/worker/worker.hpp"

namespace nginx_module {

/// It hangs in spare_hook0 of stream's ngx_module_t, which nginx does not use.
struct StreamLink {
    const char *build; // the other members mean something to a module of the same build only
    const MainConf *(*main_conf)(ngx_cycle_t *cycle);
    limiter::Worker *(*limiter)(); // null: this process serves no clients
};

/// Names the version, and what the layout of its objects depends on.
const char *build();

} // namespace nginx_module
