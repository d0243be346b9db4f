// The commands of a session that give permits back, or keep them. Nobody waits for them.
#pragma once

#include "redis_client/session/check.hpp"
#include "redis_client/session/permits.hpp"
#include "redis_client/session/pipeline.hpp"
#include "redis_client/session/session_group.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace redis_client {

class PermitCommands {
  public:
    PermitCommands(SessionGroup &group, Pipeline &pipeline)
        : group_(group), pipeline_(pipeline), permits_(group.permits, group.random_bytes) {}
    PermitCommands(const PermitCommands &) = delete;
    PermitCommands &operator=(const PermitCommands &) = delete;

    /// Makes the permits that the charges of a check ask for. Returns false if memory ran out.
    bool make_permits(std::span<Charge> charges);
    /// After an answer: a charge that was made holds its permit, if its request is still there.
    /// Redis knows none of the other permits.
    void keep_permits(const Command &check, Time now);
    /// Gives back the permits of a check, since nobody will hear whether it took them.
    void give_back_permits(const Command &check, Time now);

    void release(Permit &permit, Time now);

    /// Releases the permits whose release is not on its way, and renews those that are due. Permits
    /// of several keys share a renewal only if `may_share` is true.
    void tend(bool may_share, Time now);
    /// When tend() is to be called next, if ever.
    std::optional<Time> next_tending() const { return permits_.next_look(); }

    /// Redis answered a release, a renewal or an ASKING, or it will not. The command is gone.
    void finish(Command &command, bool done);
    /// Redis ran a release or a renewal.
    void note_success() { is_refused_ = false; }
    /// Redis answered a command of any kind with an error.
    void note_refusal(const Command &command);
    /// Whether Redis has refused a release, and has run neither a release nor a renewal since.
    bool is_refused() const { return is_refused_; }
    void disconnected();

    /// Redis renewed none of the permits: those of each key are to be renewed by themselves.
    void send_apart(Command &renewal, Time now);
    /// Sends a renewal of permits that another session holds. That session does not hear what
    /// becomes of it, and tries again soon.
    void resend_renewal(Command &renewal, PermitCommands &from, Time now);

    Permits &permits() { return permits_; }
    const Permits &permits() const { return permits_; }
    bool has(const Permit &permit) const { return permit.home == &permits_; }
    /// Whether Redis has nothing more to hear of permits.
    bool empty() const { return permits_.empty(); }

  private:
    void send_release(Permit &permit, Time now);
    void renew_permits(bool may_share, Time now);
    void send_renewals(std::span<Permit *> permits, bool may_share, Time now);
    void send_renewal(std::span<Permit *const> permits, Time now);

    SessionGroup &group_;
    Pipeline &pipeline_;
    Permits permits_;
    bool is_refused_ = false;
};

} // namespace redis_client
