// Prints what the replay decides on each line of a log, in the order of the decisions: `200`,
// `429`, or `-` if no rule applied, and then the line. Lines that are left out, it does not print.
//
//   print_verdicts RULES FORMAT LOG

#include "replay/log/ordered_log.hpp"
#include "replay/redis/embedded_redis.hpp"
#include "replay/rules/replay.hpp"

#include <cstdio>
#include <string>

int main(int count, char **words) {
    using namespace replay;
    if (count != 4) {
        return 2;
    }
    auto read_format = LogFormat::read(words[2]);
    const LogFormat format = std::get<LogFormat>(std::move(read_format));
    Variables variables(format);
    auto read_rules = read_rules_file(words[1], {}, "rl:", variables);
    if (const auto *error = std::get_if<Error>(&read_rules)) {
        std::fprintf(stderr, "%s\n", error->c_str());
        return 1;
    }
    const RulesFile rules = std::get<RulesFile>(std::move(read_rules));
    OrderedLog log({words[3]}, format, variables);
    EmbeddedRedis redis;
    Replay replay(rules, variables, redis);
    while (const auto line = log.next()) {
        Request request(format, line->text, line->fields);
        request.read_line(variables.request_fields());
        const auto decision = replay.decide(request, line->time.decided_us, line->time.ended_us);
        if (!decision) {
            std::fprintf(stderr, "%s\n", replay.error().c_str());
            return 1;
        }
        const char *verdict = !decision->has_rules ? "-" : decision->is_rejected ? "429" : "200";
        std::printf("%s %.*s\n", verdict, static_cast<int>(line->text.size()), line->text.data());
    }
    return log.skipped().lines == 0 ? 0 : 1;
}
