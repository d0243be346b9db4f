#include "nginx_module/worker/stream_link.hpp"

#include "rate_limit/metrics/metrics.hpp"

#include <string>

namespace nginx_module {

const char *build() {
    static const std::string text =
        std::string(rate_limit::version()) + " " + NGINX_VERSION + " " + NGX_MODULE_SIGNATURE +
        " " + std::to_string(sizeof(MainConf) + sizeof(ZoneConf) + sizeof(RuleConf)) + " " +
        std::to_string(sizeof(BackendConf)) + " " + std::to_string(sizeof(WorkerProcess));
    return text.c_str();
}

} // namespace nginx_module
