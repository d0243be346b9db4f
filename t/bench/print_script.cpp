// Prints the check script for rules of the algorithms that are named: `print_script gcra`, or
// `gcra+block` for a rule that blocks. Or the one that decides many such checks, `print_script
// batch gcra`, leases units with the check, `lease gcra`, or gives a charge back, `refund gcra`.

#include "redis_client/script/script.hpp"

#include <cstdio>
#include <optional>
#include <span>

namespace {

redis_client::Script script_of(std::string_view kind, const redis_client::ScriptShape &shape) {
    if (kind == "batch") {
        return redis_client::batch_script(shape);
    }
    if (kind == "refund") {
        return redis_client::refund_script(shape.parts().front().algorithm);
    }
    if (kind == "any") {
        return redis_client::any_rules_script(shape.has_blocks() ? redis_client::Blocks::yes
                                                                 : redis_client::Blocks::no);
    }
    return redis_client::check_script(shape);
}

constexpr std::string_view block = "+block";

std::optional<redis_client::ScriptShape::Part> part_of(std::string_view word) {
    const bool blocks = word.ends_with(block);
    if (blocks) {
        word.remove_suffix(block.size());
    }
    const auto algorithm = rate_limit::algorithm_named(word);
    return algorithm ? std::optional(redis_client::ScriptShape::Part{.algorithm = *algorithm,
                                                                     .blocks = blocks})
                     : std::nullopt;
}

} // namespace

int main(int count, char **arguments) {
    std::span<char *> words(arguments + 1, static_cast<size_t>(count) - 1);
    std::string_view kind = "check";
    if (!words.empty() && !part_of(words.front())) {
        kind = words.front();
        words = words.subspan(1);
    }
    redis_client::ScriptShape shape;
    for (const char *word : words) {
        auto part = part_of(word);
        if (!part || shape.parts().size() == redis_client::most_rules) {
            std::fprintf(stderr, "%s: no algorithm, or too many\n", word);
            return 1;
        }
        part->may_lease = kind == "lease";
        shape.add(*part);
    }
    if (shape.parts().empty()) {
        std::fputs("no algorithm\n", stderr);
        return 1;
    }
    std::fputs(script_of(kind, shape).source.c_str(), stdout);
}
