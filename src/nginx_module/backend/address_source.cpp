#include "nginx_module/backend/address_source.hpp"

#include "nginx_module/backend/resolved_address.hpp"
#include "nginx_module/backend/sentinel_master.hpp"

namespace nginx_module {

std::unique_ptr<AddressSource> make_address_source(AddressSource::Callbacks &callbacks,
                                                   const BackendConf &conf, ngx_log_t *log) {
    if (conf.mode == Mode::sentinel) {
        return std::make_unique<SentinelMaster>(callbacks, conf, log);
    }
    return std::make_unique<ResolvedAddress>(callbacks, conf.resolver, conf.servers.front());
}

} // namespace nginx_module
