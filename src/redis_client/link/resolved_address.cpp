#include "redis_client/link/resolved_address.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

/// An answer that is older than that is asked for anew.
constexpr std::chrono::milliseconds longest_late{5000};

} // namespace

ResolvedAddress::ResolvedAddress(AddressSource::Callbacks &callbacks, World &world, size_t backend,
                                 ServerAddress name)
    : callbacks_(callbacks),
      world_(world),
      name_(std::move(name)),
      addresses_(name_.known()),
      lookup_(world.make_lookup(backend, *this)),
      timer_(lookup_ != nullptr ? world.make_timer([this] { on_timeout(); }) : nullptr) {}

std::string_view ResolvedAddress::text() const {
    return addresses_.empty() ? std::string_view(name_.host) : address().text();
}

void ResolvedAddress::locate(std::chrono::milliseconds timeout) {
    if (!name_.addresses.empty()) {
        callbacks_.on_located();
    } else if (lookup_ == nullptr) {
        callbacks_.on_not_located({"no resolver is configured for its name", name_.host});
    } else if (!late_answer_.empty() && world_.now() - came_ <= longest_late) {
        take_addresses(std::exchange(late_answer_, {}));
        callbacks_.on_located();
    } else {
        late_answer_.clear();
        timer_->start(timeout);
        look_up();
    }
}

/// Lets a lookup go on whose answer may still come.
void ResolvedAddress::look_up() {
    const std::chrono::milliseconds now = world_.now();
    if (is_looking_up_ && now - asked_ < patience_) {
        return;
    }
    if (is_looking_up_) {
        patience_ = std::min(2 * patience_, NameLookup::longest);
    }
    is_looking_up_ = true;
    asked_ = now;
    if (!lookup_->start(name_.host, name_.port)) {
        is_looking_up_ = false;
        timer_->stop();
        callbacks_.on_not_located({"out of memory"});
    }
}

void ResolvedAddress::give_up() {
    if (timer_ != nullptr) {
        timer_->stop();
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
    is_looking_up_ = false;
    patience_ = first_patience;
    if (!timer_->is_running()) {
        late_answer_ = std::move(found);
        came_ = world_.now();
        return;
    }
    timer_->stop();
    if (!found.empty()) {
        take_addresses(std::move(found));
    }
    tell(error);
}

void ResolvedAddress::on_timeout() {
    tell("Operation timed out");
}

/// Ends a search. The error is that of the lookup.
void ResolvedAddress::tell(std::string_view error) {
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
