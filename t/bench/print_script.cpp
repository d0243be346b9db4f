// Prints the check script for rules of the algorithms that are named.

#include "redis_client/script.hpp"

#include <cstdio>

int main(int count, char **words) {
    redis_client::ScriptShape shape;
    for (int i = 1; i < count; ++i) {
        const auto algorithm = rate_limit::algorithm_named(words[i]);
        if (!algorithm || i > static_cast<int>(redis_client::most_rules)) {
            std::fprintf(stderr, "%s: no algorithm, or too many\n", words[i]);
            return 1;
        }
        shape.add({.algorithm = *algorithm, .dry_run = false});
    }
    std::fputs(redis_client::check_script(shape).source.c_str(), stdout);
}
