// The address source of a server with fixed addresses, or with a name that is looked up again for
// each connection.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/address_source.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace nginx_module {

class ResolvedAddress final : public AddressSource {
  public:
    /// If `resolver` is null, only fixed addresses are found.
    ResolvedAddress(Callbacks &callbacks, ngx_resolver_t *resolver, ServerAddress name);
    ~ResolvedAddress() override { cancel(); }
    ResolvedAddress(const ResolvedAddress &) = delete;
    ResolvedAddress &operator=(const ResolvedAddress &) = delete;

    /// If a name is not found within the time, it keeps the addresses that it had. At first these
    /// are the spare ones.
    void locate(std::chrono::milliseconds timeout) override;
    void give_up() override;
    bool use_next() override;

    const Address &address() const override { return addresses_[next_]; }
    std::string_view host() const override { return name_.host; }
    std::string_view text() const override;

  private:
    void on_resolved();
    void take_addresses();
    void cancel();

    Callbacks &callbacks_;
    ngx_resolver_t *resolver_;
    ServerAddress name_;
    std::vector<Address> addresses_; // the last ones that were found
    size_t next_ = 0;
    size_t left_out_ = 0; // how many addresses were of no use since give_up()
    ngx_resolver_ctx_t *lookup_ = nullptr;
};

} // namespace nginx_module
