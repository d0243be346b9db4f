// What a request asks of Redis: one question for all rules that can be asked together.
#pragma once

#include "ngx.hpp"

#include "applied.hpp"

#include <optional>
#include <span>

namespace nginx_module {

class RequestState;

/// Rules of one backend, asked together. In the request's pool.
class Question final : public redis_client::CheckListener {
  public:
    Question(RequestState &state, Backend &backend, std::span<redis_client::Charge> charges,
             std::span<Applied> rules);

    /// False: there is no verdict, and nothing to wait for.
    bool ask();
    /// Takes the answer, if it has come by now.
    void read_now();
    /// The request goes on without the answer.
    void give_up();
    /// The request is gone, and nobody takes note of the answer, whether it has come or not.
    void abandon();

    /// Gives back what was charged.
    void refund();
    /// Gives back the slots that the request holds, for it ends.
    void release_slots();

    bool has_answer() const { return !failure_; } // when nobody waits for it any more
    std::span<Applied> rules() const { return rules_; }

    Question *next = nullptr; // in RequestState::questions()

  private:
    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;
    const BackendMemory &memory() const;

    RequestState &state_;
    Backend &backend_;
    std::span<redis_client::Charge> charges_;
    std::span<Applied> rules_; // of the charges, in their order
    redis_client::Call *call_ = nullptr;
    std::optional<redis_client::Failure> failure_;
};

} // namespace nginx_module
