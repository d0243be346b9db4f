// Looks up the addresses of a server's name, again and again.
#pragma once

#include "redis_client/io/address.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// Does one lookup at a time. It ends when this object is destroyed.
class NameLookup {
  public:
    class Callbacks {
      public:
        /// The lookup has ended. If there are no addresses, the error says why.
        virtual void on_resolved(std::vector<Address> found, std::string_view error) = 0;

      protected:
        ~Callbacks() = default;
    };

    NameLookup() = default;
    NameLookup(const NameLookup &) = delete;
    NameLookup &operator=(const NameLookup &) = delete;
    virtual ~NameLookup() = default;

    /// Begins to look up the name, and ends the lookup before. Calls on_resolved() once, perhaps
    /// before it returns, and at the latest after `longest`. Returns false, and calls nothing, if
    /// memory ran out.
    virtual bool start(std::string_view name, in_port_t port) = 0;

    static constexpr std::chrono::milliseconds longest{30'000};
};

} // namespace redis_client
