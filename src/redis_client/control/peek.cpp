#include "redis_client/control/peek.hpp"

#include "rate_limit/text/key.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"
#include "redis_client/wire/resp.hpp"

#include <array>
#include <utility>

namespace redis_client {

namespace {

using rate_limit::Algorithm;
using rate_limit::block_suffix;

using Scripts = std::array<Script, rate_limit::all_algorithms.size()>;

template <size_t... i>
Scripts make_scripts(Blocks blocks, std::index_sequence<i...> /*all*/) {
    return {peek_script(
        {.algorithm = rate_limit::all_algorithms[i], .blocks = blocks == Blocks::yes})...};
}

Scripts make_scripts(Blocks blocks) {
    return make_scripts(blocks, std::make_index_sequence<std::tuple_size_v<Scripts>>());
}

const Script &script_of(Algorithm algorithm, Blocks blocks) {
    static const Scripts scripts = make_scripts(Blocks::no);
    static const Scripts scripts_with_blocks = make_scripts(Blocks::yes);
    const Scripts &all = blocks == Blocks::yes ? scripts_with_blocks : scripts;
    return all[static_cast<size_t>(algorithm)];
}

} // namespace

void prepare_peeks() {
    script_of(Algorithm::fixed_window, Blocks::no);
}

bool write_peek(ByteQueue &out, rate_limit::Quota quota, bool aligned, std::string_view redis_key,
                Blocks blocks, std::chrono::microseconds unix_now) {
    quota.other_limit = quota.other_limit == rate_limit::OtherLimit::counts_in_units
                            ? rate_limit::OtherLimit::looked_at_in_units
                            : rate_limit::OtherLimit::looked_at_in_time;
    const std::string_view script = script_of(quota.algorithm, blocks).source;
    WireWords arguments = check_arguments(quota, aligned);
    const uint64_t keys = blocks == Blocks::yes ? 2 : 1;
    if (blocks == Blocks::yes) {
        if (rate_limit::holds_permits(quota.algorithm)) {
            arguments.add(""); // the permit
        }
        arguments.add(uint64_t{0}); // it begins no block
    }
    CommandWriter command(out, 3 + keys + arguments.count(),
                          script.size() + keys * (redis_key.size() + block_suffix.size()) +
                              arguments.bytes().size() + sizeof(CalendarWord));
    if (!command.ok()) {
        return false;
    }
    command.word("EVAL");
    command.word(script);
    command.word(keys);
    command.word(redis_key);
    if (blocks == Blocks::yes) {
        command.word(redis_key, block_suffix);
    }
    if (arguments.has_late_word()) {
        const CalendarWord word = calendar_word(*quota.calendar, unix_now);
        command.wire(arguments, {word.data(), word.size()});
    } else {
        command.wire(arguments);
    }
    return true;
}

std::optional<rate_limit::Verdict> read_peek(ReplyView reply, const rate_limit::Quota &quota,
                                             Blocks blocks) {
    const auto answer = reply.text();
    return answer ? read_peek_answer(*answer, quota, blocks) : std::nullopt;
}

} // namespace redis_client
