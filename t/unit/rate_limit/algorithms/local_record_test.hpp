// What tests of recorded verdicts share: rules, and a model in place of Redis.
#pragma once

#include "local_test.hpp"

#include "model/models.hpp"

#include <cstdint>
#include <memory>

namespace rate_limit {

using namespace std::chrono_literals;

/// A rule of 20 in 10 seconds, of which all may be taken at once.
inline Quota twenty(Algorithm algorithm) {
    Quota quota{.algorithm = algorithm, .window = 10s, .limit = 20};
    if (is_bucket(algorithm)) {
        quota.burst = algorithm == Algorithm::token_bucket ? 20 : 19;
    }
    return quota;
}

class Redis {
  public:
    Redis(Algorithm algorithm, bool aligned) : model_(model::model_of(algorithm, aligned)) {}
    explicit Redis(Algorithm algorithm) : Redis(algorithm, true) {}

    Verdict ask(const Quota &quota, int64_t time) {
        const bool fits = model_->fits(quota, time);
        if (fits) {
            model_->take(quota, time);
        }
        return model_->verdict(quota, time, fits, fits);
    }
    bool fits(const Quota &quota, int64_t time) const { return model_->fits(quota, time); }

  private:
    std::unique_ptr<model::Model> model_;
};

} // namespace rate_limit
