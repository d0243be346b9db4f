#include "simulation/redis/simulated_redis.hpp"

#include "simulation/redis/resp.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace simulation {

namespace {

constexpr Time remembered{2'000'000}; // for so long it is known when scripts ran

constexpr const char *no_replica_writes = "READONLY You can't write against a read only replica.";

/// What a mood makes fail.
enum class Hits { nothing, all, scripts, writes, growth };

struct MoodTraits {
    SimulatedRedis::Mood mood;
    Hits hits;
    const char *error;
    uint64_t FaultCounts::*count;
};

using Mood = SimulatedRedis::Mood;
constexpr std::array<MoodTraits, SimulatedRedis::moods> mood_table{{
    {Mood::well, Hits::nothing, "", nullptr},
    {Mood::loading, Hits::all, "LOADING Redis is loading the dataset in memory",
     &FaultCounts::loading},
    {Mood::busy, Hits::all,
     "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
     &FaultCounts::busy},
    {Mood::master_down, Hits::all,
     "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
     &FaultCounts::master_down},
    {Mood::misconf, Hits::writes,
     "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
     "disk.",
     &FaultCounts::misconf},
    {Mood::no_replicas, Hits::writes, "NOREPLICAS Not enough good replicas to write.",
     &FaultCounts::no_replicas},
    {Mood::out_of_memory, Hits::growth, "OOM command not allowed when used memory > 'maxmemory'.",
     &FaultCounts::out_of_memory},
    {Mood::not_authenticated, Hits::all, "NOAUTH Authentication required.",
     &FaultCounts::not_authenticated},
    {Mood::not_permitted, Hits::scripts,
     "ERR The user executing the script can't run this command or subcommand",
     &FaultCounts::not_permitted},
    {Mood::unknown_error, Hits::scripts, "ERR something that nobody has heard of",
     &FaultCounts::unknown_errors},
    {Mood::cluster_down, Hits::scripts, "CLUSTERDOWN The cluster is down",
     &FaultCounts::cluster_down},
    {Mood::cross_slot, Hits::scripts, "CROSSSLOT Keys in request don't hash to the same slot",
     &FaultCounts::cross_slot},
}};

const MoodTraits &traits_of(Mood mood) {
    return mood_table[static_cast<size_t>(mood)];
}

std::string written(const replay::Answer &answer) {
    switch (answer.type) {
    case replay::Answer::Type::text:
        return bulk_reply(answer.text);
    case replay::Answer::Type::number:
        return number_reply(answer.number);
    case replay::Answer::Type::nil:
        return std::string(nil_reply);
    case replay::Answer::Type::list:
        return std::string(answer.text);
    case replay::Answer::Type::error:
        break;
    }
    return error_reply(answer.text);
}

/// No script of ours has such a reply where another one was due, but nil may be due where an error
/// came.
std::string lie(uint64_t how, std::string_view truth) {
    static constexpr std::array<std::string_view, 9> lies{":7\r\n",
                                                          "+OK\r\n",
                                                          "*2\r\n:1\r\n:2\r\n",
                                                          nil_list_reply,
                                                          "HTTP/1.1 400 Bad Request\r\n\r\n",
                                                          "*4294967295\r\n",
                                                          "$5\r\nhello\r\n",
                                                          "no reply at all\r\n",
                                                          nil_reply};
    const std::string_view chosen = lies[how % lies.size()];
    const bool is_nil = chosen == nil_reply || chosen == nil_list_reply;
    const bool may_be_true = is_nil && (truth == nil_reply || truth.starts_with('-'));
    return std::string(may_be_true ? lies[0] : chosen);
}

/// Others are of a connection, or of what a Redis is among others.
bool is_of_data(std::string_view command) {
    static constexpr std::array<std::string_view, 5> others{"AUTH", "SELECT", "ROLE", "ASKING",
                                                            "CLUSTER"};
    return std::ranges::find(others, command) == others.end();
}

/// The scripts of live limits have one hash slot.
bool has_live_limits(std::span<const std::string_view> keys) {
    return keys.empty() || keys.front().find("{live}") != std::string_view::npos;
}

/// How many keys each settlement has whose script gave that answer; 0: it was no settlement. A
/// digit answers each, and the words of an error may follow. The answer to a check begins with a
/// time of 8 bytes, the last of which is 0.
size_t keys_of_settlement(std::string_view answer, size_t keys) {
    const size_t digits = std::min(answer.find_first_not_of("01"), answer.size());
    const bool settles = digits > 0 && answer.find('\0') == std::string_view::npos;
    return settles && keys % digits == 0 ? keys / digits : 0;
}

} // namespace

std::string SimulatedRedis::take(Peer &peer, std::string_view bytes) {
    peer.unread += bytes;
    std::string replies;
    std::string_view rest = peer.unread;
    while (!peer.was_lied_to) {
        const std::string_view before = rest;
        const auto words = take_command(rest);
        if (!words) {
            break;
        }
        ++commands_;
        const std::string_view command = before.substr(0, before.size() - rest.size());
        const std::string its_reply = reply(peer, *words, command);
        if (observer_ != nullptr && is_of_data(words->front())) {
            observer_->replied(now(), command, its_reply);
        }
        replies += its_reply;
    }
    peer.unread.erase(0, peer.unread.size() - rest.size());
    return replies;
}

std::string SimulatedRedis::reply(Peer &peer, const Words &words, std::string_view command) {
    const MoodTraits &mood = traits_of(mood_);
    const std::string_view name = words[0];
    if (name == "AUTH" || name == "SELECT") {
        return reply_to_login(peer, words);
    }
    if (!peer.has_password && !access_.password.empty()) {
        ++counts_.not_authenticated;
        return error_reply("NOAUTH Authentication required.");
    }
    const bool is_script = name == "EVAL" || name == "EVALSHA";
    if (mood.hits == Hits::all || (mood.hits == Hits::scripts && is_script)) {
        ++(counts_.*mood.count);
        return error_reply(mood.error);
    }
    if (is_script) {
        if (peer.was_told_of_replica) {
            on_misbehaviour("asks a replica that has told what it is");
        }
        return run(peer, words, command);
    }
    if (name == "SCRIPT" && words.size() == 3 && words[1] == "LOAD") {
        const std::string sha1 = engine_->load(words[2]);
        texts_.emplace(sha1, words[2]);
        return bulk_reply(sha1);
    }
    if (name == "ROLE") {
        peer.was_told_of_replica = !is_master();
        return role();
    }
    if (name == "ASKING" && cluster_ != nullptr) {
        peer.has_asked = true;
        return status_reply("OK");
    }
    if (name == "CLUSTER" && words.size() == 2 && words[1] == "SLOTS" && cluster_ != nullptr) {
        return cluster_->slots(*this);
    }
    return run(peer, words, command);
}

std::string SimulatedRedis::reply_to_login(Peer &peer, const Words &words) {
    if (words[0] == "SELECT") {
        std::from_chars(words[1].data(), words[1].data() + words[1].size(), peer.database);
        return status_reply("OK");
    }
    const std::string_view username = words.size() == 3 ? words[1] : std::string_view();
    if (access_.password.empty() || username != access_.username ||
        words.back() != access_.password) {
        ++counts_.wrong_password;
        return error_reply("WRONGPASS invalid username-password pair or user is disabled.");
    }
    peer.has_password = true;
    return status_reply("OK");
}

std::string SimulatedRedis::run(Peer &peer, const Words &words, std::string_view command) {
    if (peer.database != access_.database) {
        return error_reply("ERR the client has not selected its database");
    }
    if (cluster_ != nullptr) {
        const auto error = cluster_->refuse(*this, peer, keys_of(words));
        peer.has_asked = false;
        if (error) {
            return error_reply(*error);
        }
    }
    const Time clock = now();
    const replay::Answer answer = engine_->run(command, clock.count());
    if (answer.type == replay::Answer::Type::error) {
        counts_.no_script += answer.text.starts_with("NOSCRIPT") ? 1 : 0;
    } else if (words[0].starts_with("EVAL")) {
        note_run(words, command, answer);
    }
    if (words[0] == "UNLINK" && answer.number > 0) {
        on_deleted(words[1]);
    }
    counts_.wrong_type += answer.text.find("WRONGTYPE") != std::string_view::npos ? 1 : 0;
    if (!is_master() && answer.text.find("READONLY ") != std::string_view::npos) {
        ++counts_.read_only;
    } else if (mood_ != Mood::well &&
               answer.text.find(traits_of(mood_).error) != std::string_view::npos) {
        ++(counts_.*traits_of(mood_).count);
    }
    while (!runs_.empty() && runs_.front().when + remembered < timeline_.now()) {
        runs_.pop_front();
    }
    const auto keys = keys_of(words);
    runs_.push_back({clock, timeline_.now(), {keys.begin(), keys.end()}});
    if (words[0] == "EVAL" && !texts_.contains(words[1])) {
        texts_.emplace(words[1], words[1]);
    }
    if (written_on_ && !answer.text.starts_with("NOSCRIPT")) {
        writes_.push_back(
            {timeline_.now(), clock, engine_->keys().refusal(), std::string(command)});
    }
    std::string reply = written(answer);
    if (lie_ && words[0] == "EVALSHA") { // what follows another one is up to who asks
        reply = lie(*std::exchange(lie_, std::nullopt), reply);
        peer.was_lied_to = true;
        ++counts_.lies;
    }
    return reply;
}

/// A script has run. What answers anything else than text checks and settles nothing.
void SimulatedRedis::note_run(const Words &words, std::string_view command,
                              const replay::Answer &answer) {
    const auto keys = keys_of(words);
    const size_t of_settlement = keys_of_settlement(answer.text, keys.size());
    const bool settles = of_settlement > 0;
    for (size_t i = 0; i < keys.size(); i += std::max<size_t>(of_settlement, 1)) {
        const std::string_view key = keys[i]; // the counter's; that of its past follows
        const auto check = [&] {
            return engine_->keys().find(key) != nullptr ? ScriptRun::check_that_leaves_key
                                                        : ScriptRun::check;
        };
        on_run(settles ? ScriptRun::settlement : check(), key);
    }
    if (settles) {
        checked_keys_.note_settlement(keys);
    } else if (answer.type == replay::Answer::Type::text && !has_live_limits(keys)) {
        checked_keys_.note_check(keys, command);
    }
}

std::string SimulatedRedis::role() const {
    if (is_master()) {
        return list_reply(std::array{bulk_reply("master"), number_reply(1), list_reply({})});
    }
    const size_t colon = master_.rfind(':');
    return list_reply(std::array{bulk_reply("slave"), bulk_reply(master_.substr(0, colon)),
                                 number_reply(std::stoll(master_.substr(colon + 1))),
                                 bulk_reply("connected"), number_reply(1)});
}

void SimulatedRedis::set_mood(Mood mood) {
    mood_ = mood;
    mood_since_ = timeline_.now();
    update_refusal();
}

std::string_view SimulatedRedis::refusal_of_writes(Time since) const {
    const MoodTraits &mood = traits_of(mood_);
    const bool refuses = mood.hits == Hits::writes || mood.hits == Hits::growth;
    return refuses && mood_since_ <= since ? mood.error : std::string_view();
}

void SimulatedRedis::spoil(const std::string &name) {
    replay::KeyStore::Value &value = keys().make(name);
    if (std::holds_alternative<replay::NumberList>(value)) {
        value.emplace<replay::SortedSet>().set("x", 1);
    } else {
        value.emplace<replay::NumberList>().push(1);
    }
    keys().persist(name);
    spoilt_[name] = {timeline_.now(), value.index()};
    keys_were_changed();
}

bool SimulatedRedis::has_spoilt(std::string_view key, Time since) const {
    const auto spoilt = spoilt_.find(key);
    if (spoilt == spoilt_.end() || spoilt->second.when > since) {
        return false;
    }
    const replay::KeyStore::Value *value = engine_->keys().find(key);
    return value != nullptr && value->index() == spoilt->second.type;
}

void SimulatedRedis::set_master(std::string address) {
    master_ = std::move(address);
    update_refusal();
}

/// What fails only when a script writes.
void SimulatedRedis::update_refusal() {
    const MoodTraits &mood = traits_of(mood_);
    replay::Refusal refusal;
    if (!is_master()) {
        refusal.error = no_replica_writes;
    } else if (mood.hits == Hits::writes || mood.hits == Hits::growth) {
        refusal.error = mood.error;
        refusal.takes_removals = mood.hits == Hits::growth;
    }
    engine_->keys().set_refusal(refusal);
}

void SimulatedRedis::lose_data() {
    engine_ = std::make_unique<replay::EmbeddedRedis>();
    update_refusal();
    if (observer_ != nullptr) {
        observer_->lost_data();
    }
    keys_were_changed();
}

std::optional<Time> SimulatedRedis::ran_at(std::string_view key, Time clock, Time since) const {
    for (auto run = runs_.rbegin(); run != runs_.rend() && run->when >= since; ++run) {
        if (run->clock == clock && std::ranges::find(run->keys, key) != run->keys.end()) {
            return run->when;
        }
    }
    return std::nullopt;
}

std::optional<Time> SimulatedRedis::only_run_of(std::string_view key, Time since) const {
    std::optional<Time> when;
    for (auto run = runs_.rbegin(); run != runs_.rend() && run->when >= since; ++run) {
        if (std::ranges::find(run->keys, key) != run->keys.end()) {
            if (when) {
                return std::nullopt;
            }
            when = run->when;
        }
    }
    return when;
}

replay::KeyStore &SimulatedRedis::keys() {
    engine_->keys().set_now(now().count());
    return engine_->keys();
}

void SimulatedRedis::remember_writes() {
    written_on_.emplace(engine_->keys());
    written_since_ = timeline_.now();
    writes_.clear();
}

/// A replica gets the effects of scripts. The same scripts at the same times have the same.
SimulatedRedis::Copy SimulatedRedis::copy_at(Time when) const {
    Copy copy{std::make_unique<replay::EmbeddedRedis>(), std::max(when, written_since_)};
    for (const auto &[name, text] : texts_) {
        (void)copy.engine->load(text);
    }
    copy.engine->keys() = *written_on_;
    for (const Write &write : writes_) {
        if (write.when > copy.copied) {
            break;
        }
        copy.engine->keys().set_refusal(write.refusal);
        (void)copy.engine->run(write.command, write.clock.count());
    }
    copy.engine->forget_scripts();
    return copy;
}

void SimulatedRedis::become(Copy copy) {
    engine_ = std::move(copy.engine);
    update_refusal();
    remember_writes();
}

} // namespace simulation
