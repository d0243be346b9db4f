#include "redis_client/control/query.hpp"

#include "redis_client/session/auth.hpp"

#include <utility>

namespace redis_client {

Query::Query(std::string username, std::string password, size_t longest_reply)
    : username_(std::move(username)), password_(std::move(password)), reader_(longest_reply) {}

void Query::connected() {
    reader_.reset();
    problem_ = {};
    output_.clear();
    is_logging_in_ = write_auth(output_, username_, password_);
    ask(output_);
}

Query::Progress Query::read(std::string_view bytes) {
    reader_.feed(bytes);
    for (;;) {
        switch (reader_.next()) {
        case ReplyTreeReader::Next::incomplete:
            return Progress::more;
        case ReplyTreeReader::Next::broken:
            return broken("an unexpected reply");
        case ReplyTreeReader::Next::reply:
            break;
        }
        const Progress step = std::exchange(is_logging_in_, false)
                                  ? take_login_reply(reader_.reply())
                                  : take(reader_.reply());
        if (step != Progress::more) {
            return step;
        }
    }
}

Query::Progress Query::take_login_reply(ReplyView reply) {
    return reply.is_error() ? broken("AUTH", refusal_of_auth(reply.text().value_or("")))
                            : Progress::more;
}

Query::Progress Query::broken(std::string_view what, std::string_view redis_said) {
    problem_ = {.what = what, .redis_said = std::string(redis_said)};
    return Progress::broken;
}

} // namespace redis_client
