// redis-rate-limit-replay: what would these rules have done to this traffic?
#include "rate_limit/metrics/metrics.hpp"
#include "replay/log/ordered_log.hpp"
#include "replay/redis/embedded_redis.hpp"
#include "replay/redis/real_redis.hpp"
#include "replay/report/readable.hpp"
#include "replay/report/report.hpp"

#include <getopt.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace replay {

namespace {

constexpr int failure = 1;
constexpr int wrong_usage = 2;

constexpr const char *usage = R"(Usage: redis-rate-limit-replay --rules FILE [OPTION ...] [LOG ...]

What would these rules have done to the requests in nginx's access logs? No Redis is needed.

  --rules FILE          redis_rate_limit_zone and redis_rate_limit as in nginx.conf
  --format FORMAT       the text of the log_format; else it is combined
  --undecided=estimate  replays by $msec, too, on what $redis_rate_limit_decided is -
  --zone-key Z=TEXT     the key of zone Z instead of the one in FILE
  --json FILE           writes the result as JSON, too; - is the standard output, without the table
  --html FILE           writes a page with charts, too
  --redis HOST:PORT     runs the scripts in a real Redis, which takes longer
  --help                shows this
  --version             shows the version

LOG is a file, perhaps compressed by gzip, or - for the standard input, which is read if there is
none. Several logs, of several days or hosts, may be given in any order.

Example:

  cat >rules.conf <<'END'
  redis_rate_limit_zone $redis_rate_limit_addr zone=per_ip:10m;
  redis_rate_limit zone=per_ip algorithm=sliding_log limit=100 window=60s;
  END
  redis-rate-limit-replay --rules rules.conf --html report.html /var/log/nginx/access.log*

The exit status is 0, or 1 on errors, or 2 on wrong usage.
)";

struct Options {
    std::string rules;
    std::string format = std::string(LogFormat::combined);
    Undecided undecided = Undecided::left_out;
    ZoneKeys zone_keys;
    std::optional<std::string> json;
    std::optional<std::string> html;
    std::optional<std::string> redis;
    std::vector<std::string> logs;
};

int complain(const std::string &text) {
    std::fprintf(stderr, "redis-rate-limit-replay: %s\n", text.c_str());
    return failure;
}

int complain_of_usage(const std::string &text) {
    complain(text);
    std::fputs("Try --help.\n", stderr);
    return wrong_usage;
}

/// Reads the options. Returns nothing if the program is to go on, or else the exit status.
std::optional<int> read_options(int count, char **words, Options &options) {
    enum Option { rules = 1, format, undecided, zone_key, json, html, redis, help, version };
    const option known[] = {{"rules", required_argument, nullptr, rules},
                            {"format", required_argument, nullptr, format},
                            {"undecided", required_argument, nullptr, undecided},
                            {"zone-key", required_argument, nullptr, zone_key},
                            {"json", required_argument, nullptr, json},
                            {"html", required_argument, nullptr, html},
                            {"redis", required_argument, nullptr, redis},
                            {"help", no_argument, nullptr, help},
                            {"version", no_argument, nullptr, version},
                            {nullptr, 0, nullptr, 0}};
    for (int option = 0; (option = getopt_long(count, words, "", known, nullptr)) != -1;) {
        const std::string value = optarg != nullptr ? optarg : "";
        const size_t equals = value.find('=');
        switch (option) {
        case rules:
            options.rules = value;
            break;
        case format:
            options.format = value;
            break;
        case undecided:
            if (value != "estimate") {
                return complain_of_usage("--undecided: expected estimate");
            }
            options.undecided = Undecided::estimated;
            break;
        case zone_key:
            if (equals == std::string::npos || equals == 0) {
                return complain_of_usage("--zone-key: expected ZONE=TEXT");
            }
            options.zone_keys.emplace_back(value.substr(0, equals), value.substr(equals + 1));
            break;
        case json:
            options.json = value;
            break;
        case html:
            options.html = value;
            break;
        case redis:
            options.redis = value;
            break;
        case help:
            std::fputs(usage, stdout);
            return 0;
        case version:
            std::printf("redis-rate-limit-replay %.*s\n",
                        static_cast<int>(rate_limit::version().size()),
                        rate_limit::version().data());
            return 0;
        default:
            std::fputs("Try --help.\n", stderr);
            return wrong_usage;
        }
    }
    options.logs.assign(words + optind, words + count);
    if (options.rules.empty()) {
        return complain_of_usage("--rules is missing");
    }
    if (options.logs.empty()) {
        if (isatty(STDIN_FILENO) != 0) {
            return complain_of_usage("no log is given");
        }
        options.logs.emplace_back("-");
    }
    return std::nullopt;
}

/// Shows on a terminal how far the work is.
class ProgressBar {
  public:
    explicit ProgressBar(bool is_shown) : is_shown_(is_shown), next_(Clock::now() + pause) {}
    ~ProgressBar() { clear(); }

    void show(const OrderedLog &log) {
        constexpr uint64_t lines_between_looks = 4096;
        if (!is_shown_ || ++calls_ % lines_between_looks != 0 || Clock::now() < next_) {
            return;
        }
        next_ = Clock::now() + pause;
        constexpr int width = 30;
        const auto part = log.progress();
        if (part) {
            const int full = static_cast<int>(*part * width);
            const std::string bar = std::string(static_cast<size_t>(full), '#') +
                                    std::string(static_cast<size_t>(width - full), '.');
            std::fprintf(stderr, "\r[%s] %3.0f %%  %llu lines ", bar.c_str(), *part * 100,
                         static_cast<unsigned long long>(log.lines()));
        } else {
            std::fprintf(stderr, "\r%llu lines ", static_cast<unsigned long long>(log.lines()));
        }
        has_shown_ = true;
    }

    void say(const char *text) {
        if (is_shown_) {
            clear();
            std::fputs(text, stderr);
            has_shown_ = true;
        }
    }

    void clear() {
        if (has_shown_) {
            std::fputs("\r\x1b[K", stderr);
            has_shown_ = false;
        }
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds pause{200};

    bool is_shown_;
    bool has_shown_ = false;
    uint64_t calls_ = 0;
    Clock::time_point next_;
};

/// Whether the file holds something that is no such result: a log that was named by mistake would
/// be lost.
bool holds_other(const std::string &path, std::string_view text) {
    std::FILE *file = path != "-" ? std::fopen(path.c_str(), "re") : nullptr;
    if (file == nullptr) {
        return false;
    }
    constexpr size_t begin = 14; // of which the texts of all results are the same
    std::string held(begin, '\0');
    held.resize(std::fread(held.data(), 1, begin, file));
    (void)std::fclose(file); // it was only read
    return !held.empty() && held != text.substr(0, begin);
}

/// Returns false if the file could not be written.
bool write_file(const std::string &path, const std::string &text) {
    if (path == "-") {
        return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    }
    std::FILE *file = std::fopen(path.c_str(), "we");
    if (file == nullptr) {
        return false;
    }
    const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && is_written;
}

int write_results(const Options &options, const Report &report) {
    const std::pair<const std::optional<std::string> &, std::string (*)(const Report &)> files[] = {
        {options.json, json_of}, {options.html, page_of}};
    for (const auto &[path, text_of] : files) {
        if (!path) {
            continue;
        }
        const std::string text = text_of(report);
        if (holds_other(*path, text)) {
            return complain(*path + " holds no such result: it stays. Expected another file");
        }
        if (!write_file(*path, text)) {
            return complain("cannot write " + *path + ": " + std::strerror(errno));
        }
    }
    if (options.json != "-" && options.html != "-") {
        const std::string table = table_of(report, isatty(STDOUT_FILENO) != 0);
        std::fputs(table.c_str(), stdout);
    }
    return std::fflush(stdout) == 0 ? 0 : complain("cannot write the table");
}

/// Returns who runs the scripts, or null if it cannot be reached: then the user knows why.
std::unique_ptr<Redis> make_redis(const Options &options, std::string_view prefix) {
    if (!options.redis) {
        return std::make_unique<EmbeddedRedis>();
    }
    std::string error;
    std::unique_ptr<Redis> redis = RealRedis::connect(*options.redis, prefix, error);
    if (!redis) {
        complain("--redis: " + *options.redis + ": " + error);
    }
    return redis;
}

/// Returns what stands before all keys. Those of a real Redis are of this run alone.
std::string prefix_of(const Options &options) {
    return options.redis ? "replay:" + std::to_string(getpid()) + ":" +
                               std::to_string(std::chrono::system_clock::now().time_since_epoch() /
                                              std::chrono::microseconds{1}) +
                               ":"
                         : "rl:";
}

/// A rule that holds permits counts requests until they end.
std::optional<Error> missing_in(const LogFormat &format, const RulesFile &rules) {
    for (const auto &rule : rules.rules) {
        if (rate_limit::holds_permits(rule->quota().algorithm) &&
            !LogTime(format).has_request_time()) {
            return "rule \"" + rule->name +
                   "\": " + std::string(to_string(rule->quota().algorithm)) +
                   " needs $request_time in the format, to know when requests end";
        }
    }
    return std::nullopt;
}

/// A log of a busy host may be of a thousand files.
void allow_many_files() {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

/// What the lines of the log have shown of themselves.
struct Course {
    bool is_undated = false; // nginx did not say when it decided
    uint64_t undecided = 0;  // of so many requests, of others it did
    uint64_t replayed = 0;
    uint64_t without_request = 0;
    bool is_of_both_phases = false;
    int64_t begin_us = 0; // the first and the last decision
    int64_t end_us = 0;
};

/// Replays all lines. Returns nothing if Redis failed.
std::optional<Course> replay_all(OrderedLog &log, const LogFormat &format,
                                 const Variables &variables, Replay &replay,
                                 ProgressBar &progress) {
    Course course;
    const bool has_decided = LogTime(format).has_decided();
    while (const auto line = log.next()) {
        progress.show(log);
        Request request(format, line->text, line->fields);
        request.read_line(variables.request_fields());
        const auto decision = replay.decide(request, line->time.decided_us, line->time.ended_us);
        if (!decision) {
            return std::nullopt;
        }
        if (decision->is_no_request) {
            ++course.without_request;
            continue;
        }
        ++course.replayed;
        if (line->time.is_estimate && has_decided) {
            ++course.undecided;
        } else if (line->time.is_estimate && decision->has_rules) {
            course.is_undated = true;
        }
        course.is_of_both_phases = course.is_of_both_phases || decision->is_of_both_phases;
        course.begin_us = course.begin_us == 0 ? line->time.decided_us : course.begin_us;
        course.end_us = line->time.decided_us;
    }
    replay.finish();
    course.without_request += log.undecided_without_request();
    return replay.error().empty() ? std::optional(course) : std::nullopt;
}

/// Returns why the log is not to be trusted, or nothing.
std::optional<Error> fault_of(OrderedLog &log, const Course &course, const LogFormat &format) {
    if (!log.error().empty()) {
        return log.error();
    }
    constexpr uint64_t most = 10; // one of so many lines may be skipped
    constexpr size_t most_shown = 200;
    const OrderedLog::Skipped &skipped = log.skipped();
    if (skipped.lines * most > log.lines()) {
        return std::to_string(skipped.lines) + " of " + std::to_string(log.lines()) +
               " lines are not of the format, the first of them:\n" +
               readable(skipped.first, most_shown) + "\n" + log.why_skipped() +
               "\n--format takes the log_format of this log. What no rule needs may have any name "
               "there.";
    }
    if (course.replayed > 0 || log.lines() == 0) {
        return std::nullopt;
    }
    if (log.undecided() > 0) {
        return "no rule decided on any of the requests: $redis_rate_limit_decided is - in all "
               "lines. " +
               (LogTime(format).can_estimate_undecided()
                    ? std::string("--undecided=estimate replays them by their other time.")
                    : std::string("With $msec in the log_format, too, --undecided=estimate could "
                                  "replay them."));
    }
    return "none of " + std::to_string(log.lines()) + " lines holds a request";
}

/// Returns why verdicts may not be nginx's own.
std::vector<std::string> estimates_of(const OrderedLog &log, const Course &course) {
    std::vector<std::string> estimates;
    if (course.is_undated) {
        estimates.emplace_back("the log does not say when nginx decided. "
                               "$redis_rate_limit_decided in its format does.");
    }
    if (course.undecided > 0) {
        estimates.emplace_back(
            "on " + std::to_string(course.undecided) +
            " requests nginx did not decide. They are replayed by another time.");
    }
    if (course.is_of_both_phases) {
        estimates.emplace_back("rules of both phases apply to a request, for which the log has one "
                               "time.");
    }
    if (log.late() > 0) {
        estimates.emplace_back("lines are out of order by more than a minute, as those of long "
                               "requests are. They count as if they came in time.");
    }
    return estimates;
}

int run(const Options &options) {
    auto read_format = LogFormat::read(options.format);
    if (const auto *error = std::get_if<Error>(&read_format)) {
        return complain_of_usage(*error);
    }
    const LogFormat format = std::get<LogFormat>(std::move(read_format));
    if (!LogTime(format).is_known()) {
        return complain_of_usage("--format: it has no $redis_rate_limit_decided, $msec, "
                                 "$time_iso8601 or $time_local");
    }
    if (options.undecided == Undecided::estimated && !LogTime(format).can_estimate_undecided()) {
        return complain_of_usage(
            "--undecided: expected a format with $redis_rate_limit_decided and "
            "$msec, $time_iso8601 or $time_local");
    }
    Variables variables(format);
    const std::string prefix = prefix_of(options);
    auto read_rules = read_rules_file(options.rules, options.zone_keys, prefix, variables);
    if (const auto *error = std::get_if<Error>(&read_rules)) {
        return complain(*error);
    }
    const RulesFile rules = std::get<RulesFile>(std::move(read_rules));
    if (const auto missing = missing_in(format, rules)) {
        return complain(*missing);
    }
    allow_many_files();
    OrderedLog log(options.logs, format, variables, options.undecided);
    if (!log.error().empty()) {
        return complain(log.error());
    }
    const std::unique_ptr<Redis> redis = make_redis(options, prefix);
    if (!redis) {
        return failure;
    }

    Replay replay(rules, variables, *redis);
    ProgressBar progress(isatty(STDERR_FILENO) != 0);
    const auto course = replay_all(log, format, variables, replay, progress);
    progress.clear();
    if (!course) {
        return complain(replay.error());
    }
    if (const auto fault = fault_of(log, *course, format)) {
        return complain(*fault);
    }
    progress.say("searching limits");
    Report report = make_report(rules, replay);
    progress.clear();
    report.lines = log.lines();
    report.skipped = log.skipped().lines;
    report.ambiguous = log.skipped().ambiguous;
    report.without_request = course->without_request;
    report.undecided = log.undecided();
    report.late = log.late();
    report.estimates = estimates_of(log, *course);
    report.begin_us = course->begin_us;
    report.end_us = course->end_us;
    return write_results(options, report);
}

} // namespace

} // namespace replay

int main(int count, char **words) {
    replay::Options options;
    if (const auto status = replay::read_options(count, words, options)) {
        return *status;
    }
    return replay::run(options);
}
