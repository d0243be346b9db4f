// Which rules of its location apply to a request, and with what key and numbers.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"

#include <span>
#include <string_view>

namespace nginx_module {

class RequestState;

struct Candidate {
    const RuleConf *rule;
    bool dry_run;
    bool is_invalid; // a variable is no number
    std::string_view key;
    rate_limit::Quota quota;

    /// Whether it takes Redis to decide.
    bool is_open() const { return !is_invalid && !rate_limit::verdict_without_counter(quota); }
};

class Candidates {
  public:
    /// The rules of a phase that were not applied to the request yet. NGX_OK or NGX_ERROR.
    ngx_int_t collect(ngx_http_request_t *r, Phase phase, const RequestState *state);

    /// Those that it does not take Redis to decide.
    std::span<const Candidate> decided() const { return {memory_.candidates, decided_}; }
    /// Those that are asked together stand together.
    std::span<const Candidate> open() const {
        return {memory_.candidates + decided_, count_ - decided_};
    }

  private:
    void take_last();

    /// Room for many rules, where most requests have few: only those are initialized.
    union Memory {
        Memory() {} // NOLINT(modernize-use-equals-default): that would initialize
        Candidate candidates[redis_client::most_rules];
    };

    Memory memory_;
    size_t count_ = 0;
    size_t decided_ = 0;
};

} // namespace nginx_module
