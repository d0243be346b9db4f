// A host at fixed addresses, or at those of a name that is looked up again for each connection.
#pragma once

#include "ngx.hpp"

#include "locator.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace nginx_module {

/// As a configuration or a Redis names it.
struct HostName {
    std::string host; // a name, or an address without brackets; empty for a unix socket
    in_port_t port = 0;
    std::vector<Address> addresses = {}; // where it is fixed: in the order in which they are tried
    std::vector<Address> spare = {};     // of a name, as long as the resolver has found none

    bool is_local() const { return host.empty(); }
    const std::vector<Address> &known() const { return addresses.empty() ? spare : addresses; }
};

/// The address that a text is; none where it is a name.
std::vector<Address> literal_address(std::string_view host, in_port_t port);

class Host final : public Locator {
  public:
    /// Without a resolver only fixed addresses are found.
    Host(Owner &owner, ngx_resolver_t *resolver, HostName name);
    ~Host() override { cancel(); }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    /// A name that is not found within the time keeps the addresses that it had, at first the
    /// spare ones.
    void locate(std::chrono::milliseconds timeout) override;
    void give_up() override;

    const Address &address() const override { return addresses_[next_]; }
    std::string_view host() const override { return name_.host; }
    std::string_view text() const override;

  private:
    void on_resolved();
    void take_addresses();
    void cancel();

    Owner &owner_;
    ngx_resolver_t *resolver_;
    HostName name_;
    std::vector<Address> addresses_; // the last that were good
    size_t next_ = 0;
    ngx_resolver_ctx_t *lookup_ = nullptr;
};

} // namespace nginx_module
