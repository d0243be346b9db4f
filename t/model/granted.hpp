// What all hosts together grant of one key, held against the rule.
#pragma once

#include "models.hpp"
#include "rate_limit/rule/rule.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace model {

class Granted {
  public:
    Granted(const rate_limit::Quota &quota, bool aligned);

    /// Counts units that are granted now. Returns false if the rule does not allow so many. Only
    /// fixed windows need their end: of the window in which the units were charged.
    bool take(uint64_t units, int64_t now, int64_t window_end);

  private:
    rate_limit::Quota quota_;
    std::unique_ptr<Model> model_;
    std::map<int64_t, uint64_t> of_window_; // by its end
};

} // namespace model
