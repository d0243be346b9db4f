#include "peek.hpp"

#include "answer.hpp"
#include "arguments.hpp"
#include "resp.hpp"
#include "script.hpp"

#include <array>
#include <utility>

namespace redis_client {

namespace {

using rate_limit::Algorithm;

using Scripts = std::array<Script, rate_limit::all_algorithms.size()>;

template <size_t... i>
Scripts make_scripts(std::index_sequence<i...> /*all*/) {
    return {peek_script(rate_limit::all_algorithms[i])...};
}

const Script &script_of(Algorithm algorithm) {
    static const Scripts scripts =
        make_scripts(std::make_index_sequence<std::tuple_size_v<Scripts>>());
    return scripts[static_cast<size_t>(algorithm)];
}

} // namespace

void prepare_peeks() {
    script_of(Algorithm::fixed_window);
}

bool write_peek(ByteQueue &out, const rate_limit::Quota &quota, bool aligned,
                std::string_view redis_key) {
    const std::string_view script = script_of(quota.algorithm).source;
    const WireWords arguments = check_arguments(quota, aligned);
    CommandWriter command(out, 4 + arguments.count(),
                          script.size() + redis_key.size() + arguments.bytes().size());
    if (!command.ok()) {
        return false;
    }
    command.word("EVAL");
    command.word(script);
    command.word(uint64_t{1});
    command.word(redis_key);
    command.wire(arguments);
    return true;
}

std::optional<rate_limit::Verdict> read_peek(ReplyView reply, const rate_limit::Quota &quota) {
    const auto answer = reply.text();
    return answer ? read_peek_answer(*answer, quota) : std::nullopt;
}

} // namespace redis_client
