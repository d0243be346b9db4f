// Prints the check script for rules of the algorithms that are named: `print_script gcra`. Or the
// one that decides many such checks, `print_script run gcra`, or gives a charge back, `refund
// gcra`.

#include "redis_client/script.hpp"

#include <cstdio>
#include <span>

namespace {

redis_client::Script script_of(std::string_view kind, const redis_client::ScriptShape &shape) {
    if (kind == "batch") {
        return redis_client::batch_script(shape);
    }
    if (kind == "refund") {
        return redis_client::refund_script(shape.parts().front().algorithm);
    }
    return kind == "any" ? redis_client::any_rules_script() : redis_client::check_script(shape);
}

} // namespace

int main(int count, char **arguments) {
    std::span<char *> words(arguments + 1, static_cast<size_t>(count) - 1);
    std::string_view kind = "check";
    if (!words.empty() && !rate_limit::algorithm_named(words.front())) {
        kind = words.front();
        words = words.subspan(1);
    }
    redis_client::ScriptShape shape;
    for (const char *word : words) {
        const auto algorithm = rate_limit::algorithm_named(word);
        if (!algorithm || shape.parts().size() == redis_client::most_rules) {
            std::fprintf(stderr, "%s: no algorithm, or too many\n", word);
            return 1;
        }
        shape.add({.algorithm = *algorithm, .dry_run = false});
    }
    if (shape.parts().empty()) {
        std::fputs("no algorithm\n", stderr);
        return 1;
    }
    std::fputs(script_of(kind, shape).source.c_str(), stdout);
}
