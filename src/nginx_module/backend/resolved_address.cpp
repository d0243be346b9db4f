#include "nginx_module/backend/resolved_address.hpp"

#include "nginx_module/util.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace nginx_module {

ResolvedAddress::ResolvedAddress(Callbacks &callbacks, ngx_resolver_t *resolver, ServerAddress name)
    : callbacks_(callbacks),
      resolver_(resolver),
      name_(std::move(name)),
      addresses_(name_.known()) {}

std::string_view ResolvedAddress::text() const {
    return addresses_.empty() ? std::string_view(name_.host) : address().text();
}

void ResolvedAddress::locate(std::chrono::milliseconds timeout) {
    cancel();
    if (!name_.addresses.empty()) {
        callbacks_.on_located();
        return;
    }
    if (resolver_ == nullptr) {
        callbacks_.on_not_located("no resolver is configured for its name", name_.host);
        return;
    }
    lookup_ = ngx_resolve_start(resolver_, nullptr);
    if (lookup_ == nullptr) {
        callbacks_.on_not_located("out of memory", {});
        return;
    }
    lookup_->name = to_ngx(name_.host);
    lookup_->handler = [](ngx_resolver_ctx_t *lookup) noexcept {
        static_cast<ResolvedAddress *>(lookup->data)->on_resolved();
    };
    lookup_->data = this;
    lookup_->timeout = static_cast<ngx_msec_t>(timeout.count());
    lookup_->cancelable = 1;
    if (ngx_resolve_name(lookup_) != NGX_OK) {
        lookup_ = nullptr;
        callbacks_.on_not_located("out of memory", {});
    }
}

void ResolvedAddress::give_up() {
    cancel();
    left_out_ = 0;
    next_ = addresses_.empty() ? 0 : (next_ + 1) % addresses_.size();
}

bool ResolvedAddress::use_next() {
    if (left_out_ + 1 >= addresses_.size()) {
        return false;
    }
    ++left_out_;
    next_ = (next_ + 1) % addresses_.size();
    return true;
}

void ResolvedAddress::cancel() {
    if (lookup_ != nullptr) {
        ngx_resolve_name_done(std::exchange(lookup_, nullptr));
    }
}

void ResolvedAddress::on_resolved() {
    const ngx_int_t state = lookup_->state;
    if (state == NGX_OK) {
        take_addresses();
    }
    cancel();
    if (!addresses_.empty()) {
        callbacks_.on_located();
    } else {
        callbacks_.on_not_located("its name cannot be resolved", ngx_resolver_strerror(state));
    }
}

/// Takes over the addresses that were found. The address in use stays in use if it is one of them.
void ResolvedAddress::take_addresses() {
    std::vector<Address> found;
    for (const ngx_resolver_addr_t &one : std::span(lookup_->addrs, lookup_->naddrs)) {
        ngx_sockaddr_t address{}; // a copy, because nginx may give others the same ones
        ngx_memcpy(&address, one.sockaddr, one.socklen);
        ngx_inet_set_port(&address.sockaddr, name_.port);
        found.emplace_back(&address.sockaddr, one.socklen);
    }
    if (found.empty()) {
        return;
    }
    const auto same = addresses_.empty() ? found.end() : std::ranges::find(found, address());
    next_ = same != found.end() ? static_cast<size_t>(same - found.begin()) : 0;
    addresses_ = std::move(found);
}

} // namespace nginx_module
