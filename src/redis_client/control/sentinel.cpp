#include "redis_client/control/sentinel.hpp"

#include "rate_limit/text/times_and_numbers.hpp"
#include "redis_client/session/auth.hpp"
#include "redis_client/wire/resp.hpp"

#include <utility>

namespace redis_client {

namespace {

constexpr std::string_view channel = "+switch-master";
constexpr size_t longest_sentinel_reply = 16'384;

std::string_view text_of(ReplyView reply) {
    return reply.text().value_or(std::string_view());
}

} // namespace

Sentinel::Sentinel(SentinelSettings settings)
    : settings_(std::move(settings)), reader_(longest_sentinel_reply) {}

/// Asks all at once, so that no change falls between the answer and the subscription.
void Sentinel::connected() {
    reader_.reset();
    problem_ = {};
    output_.clear();
    awaited_ = write_auth(output_, settings_.username, settings_.password) ? Awaited::login
                                                                           : Awaited::address;
    write_command(output_, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", settings_.master_name});
    write_command(output_, {"SUBSCRIBE", channel});
}

Sentinel::Progress Sentinel::received(std::string_view bytes) {
    Progress last = Progress::more;
    const bool is_good = reader_.read(bytes, [&](ReplyView reply) {
        const Progress step = take(reply);
        last = step == Progress::more ? last : step;
        return step != Progress::broken;
    });
    return is_good ? last : broken("an unexpected reply");
}

Sentinel::Progress Sentinel::take(ReplyView reply) {
    if (reply.is_error()) {
        return awaited_ == Awaited::login ? broken("AUTH", refusal_of_auth(text_of(reply)))
                                          : broken("error reply", text_of(reply));
    }
    switch (awaited_) {
    case Awaited::login:
        awaited_ = Awaited::address;
        break;
    case Awaited::address:
        awaited_ = Awaited::subscription;
        return take_address(reply);
    case Awaited::subscription:
        awaited_ = Awaited::messages;
        return reply.size() == 3 ? Progress::more : broken("an unexpected reply");
    case Awaited::messages:
        return take_message(reply);
    }
    return Progress::more;
}

Sentinel::Progress Sentinel::take_address(ReplyView reply) {
    if (reply.size() != 2) {
        return broken(reply.is_empty() ? "it knows no master of that name" : "an unexpected reply");
    }
    return take_master(text_of(reply[0]), text_of(reply[1]));
}

/// `name old-host old-port new-host new-port`
Sentinel::Progress Sentinel::take_message(ReplyView message) {
    if (message.size() != 3 || text_of(message[1]) != channel) {
        return broken("an unexpected reply");
    }
    std::string_view text = text_of(message[2]);
    if (next_word(text) != settings_.master_name) {
        return Progress::more; // a Sentinel may watch several masters
    }
    (void)next_word(text);
    (void)next_word(text);
    const std::string_view host = next_word(text);
    return take_master(host, next_word(text));
}

Sentinel::Progress Sentinel::take_master(std::string_view host, std::string_view port) {
    const auto number = rate_limit::parse_whole_number(port, 65'535);
    if (host.empty() || host.size() > longest_host || !number || *number == 0) {
        return broken("an unexpected reply");
    }
    master_ = {.host = std::string(host), .port = static_cast<uint16_t>(*number)};
    return Progress::answered;
}

Sentinel::Progress Sentinel::broken(std::string_view what, std::string_view redis_said) {
    problem_ = {
        .what = what, .redis_said = std::string(redis_said), .is_refusal = is_refusal(redis_said)};
    return Progress::broken;
}

} // namespace redis_client
