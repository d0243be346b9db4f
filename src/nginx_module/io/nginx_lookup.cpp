#include "nginx_module/io/nginx_lookup.hpp"

#include "nginx_module/util.hpp"

#include <span>
#include <utility>
#include <vector>

namespace nginx_module {

bool NginxLookup::start(std::string_view name, in_port_t port) {
    end();
    port_ = port;
    lookup_ = ngx_resolve_start(&resolver_, nullptr);
    if (lookup_ == nullptr) {
        return false;
    }
    lookup_->name = to_ngx(name);
    lookup_->handler = [](ngx_resolver_ctx_t *lookup) noexcept {
        static_cast<NginxLookup *>(lookup->data)->on_end();
    };
    lookup_->data = this;
    lookup_->timeout = static_cast<ngx_msec_t>(longest.count());
    lookup_->cancelable = 1;
    if (ngx_resolve_name(lookup_) != NGX_OK) {
        lookup_ = nullptr;
        return false;
    }
    return true;
}

void NginxLookup::end() {
    if (lookup_ != nullptr) {
        ngx_resolve_name_done(std::exchange(lookup_, nullptr));
    }
}

void NginxLookup::on_end() {
    const ngx_int_t state = lookup_->state;
    std::vector<redis_client::Address> found;
    if (state == NGX_OK) {
        for (const ngx_resolver_addr_t &one : std::span(lookup_->addrs, lookup_->naddrs)) {
            const redis_client::Address address(one.sockaddr, one.socklen);
            found.push_back(address.with_port(port_));
        }
    }
    end();
    callbacks_.on_resolved(std::move(found), ngx_resolver_strerror(state));
}

} // namespace nginx_module
