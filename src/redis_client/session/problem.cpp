#include "redis_client/session/problem.hpp"

#include "rate_limit/text/text.hpp"
#include "redis_client/script/answer.hpp"

namespace redis_client {

void ProblemNote::note(std::string_view what, std::string_view redis_said) {
    const std::string_view kept = redis_said.substr(0, redis_said_.size());
    rate_limit::append(redis_said_.data(), kept);
    last_ = {};
    last_.what = what;
    last_.redis_said = {redis_said_.data(), kept.size()};
}

void ProblemNote::note_of_keys(const Command &check, std::string_view what,
                               std::string_view redis_said) {
    note(what, redis_said);
    last_.is_of_keys = true;
    if (check.callbacks != nullptr) {
        last_.checked = check.callbacks->describe(checked_);
    }
}

void ProblemNote::note_failed_checks(const Command &first, std::string_view error) {
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        if (!check->has_failed) {
            continue;
        }
        if (error.empty()) {
            note_of_keys(*check, "impossible numbers of a key's value");
        } else if (is_error_of_keys(error)) {
            note_of_keys(*check, "error reply", error);
        } else {
            note("error reply", error);
        }
    }
}

} // namespace redis_client
