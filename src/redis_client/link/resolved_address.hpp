// The address source of a server with fixed addresses, or with a name that is looked up again for
// each connection.
#pragma once

#include "redis_client/io/world.hpp"
#include "redis_client/link/address_source.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

class ResolvedAddress : public AddressSource, NameLookup::Callbacks {
  public:
    /// `backend` is the index of the backend that the server belongs to.
    ResolvedAddress(AddressSource::Callbacks &callbacks, World &world, size_t backend,
                    ServerAddress name);
    ResolvedAddress(const ResolvedAddress &) = delete;
    ResolvedAddress &operator=(const ResolvedAddress &) = delete;

    /// If a name is not found within the time, it keeps the addresses that it had. At first these
    /// are the spare ones. The lookup goes on, and the next search takes what it has found.
    void locate(std::chrono::milliseconds timeout) override;
    void give_up() override;
    bool use_next() override;

    const Address &address() const override { return addresses_[next_]; }
    std::string_view host() const override { return name_.host; }
    std::string_view text() const override;

  protected:
    /// Sets the addresses that are known. If they are not those that were known before, they take
    /// the place of what a lookup has found.
    void set_known(const ServerAddress &name);

  private:
    void on_resolved(std::vector<Address> found, std::string_view error) override;
    void on_timeout();
    void look_up();
    void take_addresses(std::vector<Address> found);
    void tell(std::string_view error);

    /// For so long the answer to a lookup is waited for before the next one, which may ask another
    /// name server. It doubles each time, so that in the end a slow one is heard.
    static constexpr std::chrono::milliseconds first_patience{500};

    AddressSource::Callbacks &callbacks_;
    World &world_;
    ServerAddress name_;
    std::vector<Address> addresses_; // the last ones that were found
    size_t next_ = 0;
    size_t left_out_ = 0;                // how many addresses were of no use since give_up()
    std::unique_ptr<NameLookup> lookup_; // null: only fixed addresses are found
    std::unique_ptr<Timer> timer_;       // runs while a search waits for a lookup; null as lookup_
    bool is_looking_up_ = false;
    std::chrono::milliseconds asked_{0}; // when the lookup began
    std::chrono::milliseconds patience_ = first_patience;
    std::vector<Address> late_answer_;  // of a lookup for which no search waited any more
    std::chrono::milliseconds came_{0}; // when it did
};

} // namespace redis_client
