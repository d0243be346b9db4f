#include "redis_client/link/resolved_address.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

ResolvedAddress::ResolvedAddress(AddressSource::Callbacks &callbacks, World &world, size_t backend,
                                 ServerAddress name)
    : callbacks_(callbacks),
      name_(std::move(name)),
      addresses_(name_.known()),
      lookup_(world.make_lookup(backend, *this)) {}

std::string_view ResolvedAddress::text() const {
    return addresses_.empty() ? std::string_view(name_.host) : address().text();
}

void ResolvedAddress::locate(std::chrono::milliseconds timeout) {
    if (!name_.addresses.empty()) {
        callbacks_.on_located();
    } else if (lookup_ == nullptr) {
        callbacks_.on_not_located({"no resolver is configured for its name", name_.host});
    } else if (!lookup_->start(name_.host, name_.port, timeout)) {
        callbacks_.on_not_located({"out of memory"});
    }
}

void ResolvedAddress::give_up() {
    if (lookup_ != nullptr) {
        lookup_->cancel();
    }
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

void ResolvedAddress::set_known(const ServerAddress &name) {
    if (name.known() != name_.known()) {
        name_ = name;
        take_addresses(name_.known());
    }
}

void ResolvedAddress::on_resolved(std::vector<Address> found, std::string_view error) {
    if (!found.empty()) {
        take_addresses(std::move(found));
    }
    if (!addresses_.empty()) {
        callbacks_.on_located();
    } else {
        callbacks_.on_not_located({"its name cannot be resolved", error});
    }
}

/// Takes over the addresses that were found. The address in use stays in use if it is one of them.
void ResolvedAddress::take_addresses(std::vector<Address> found) {
    const auto same = addresses_.empty() ? found.end() : std::ranges::find(found, address());
    next_ = same != found.end() ? static_cast<size_t>(same - found.begin()) : 0;
    addresses_ = std::move(found);
}

} // namespace redis_client
