// A backend that is one Redis: the only one, or the master that Sentinels name.
#pragma once

#include "redis_client/link/backend.hpp"
#include "redis_client/link/check_link.hpp"
#include "redis_client/link/control_link.hpp"

#include <memory>
#include <optional>
#include <span>
#include <variant>

namespace redis_client {

class SingleNode final : public Backend {
  public:
    SingleNode(const BackendSettings &settings, World &world, BackendLog &log);

    std::variant<Command *, Failure> ask(std::span<Charge> charges,
                                         CheckCallbacks &callbacks) override {
        return checks().ask(charges, callbacks);
    }
    void abandon(Command &check) override { checks().abandon(check); }
    void refund(std::span<Charge> charges) override { checks().refund(charges); }
    void settle(const SettlementOrder &order) override { checks().settle(order); }
    void release(Permit &permit) override { checks().release(permit); }
    void run(ControlCommand &command) override;
    void cancel(const ControlCommand &command) override;
    void send_now() override;

  private:
    CheckLink &checks();

    // Is made at once if rules use the backend. It can be used until its end: whoever hears from
    // there that a check has failed may settle at once.
    std::unique_ptr<CheckLink> checks_;
    std::optional<ControlLink> control_; // is made for the first command
};

} // namespace redis_client
