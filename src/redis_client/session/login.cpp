#include "redis_client/session/login.hpp"

#include "redis_client/session/auth.hpp"

namespace redis_client {

namespace {

constexpr std::string_view auth = "AUTH";
constexpr std::string_view role = "ROLE";

} // namespace

Login::Login(const SessionSettings &settings) {
    if (write_auth(commands_, settings.username, settings.password)) {
        names_.push_back(auth);
    }
    if (settings.needs_master) {
        add(role, {role});
    }
    if (settings.database > 0) {
        add("SELECT", {"SELECT", std::to_string(settings.database)});
    }
}

Login::Login(const SessionSettings &settings, const ScriptLibrary &scripts) : Login(settings) {
    const auto load = [&](const Script &script) {
        add("SCRIPT LOAD", {"SCRIPT", "LOAD", script.source});
    };
    bool has_permits = false;
    for (const ScriptShape &shape : settings.shapes) {
        load(scripts.check(shape));
        if (const Script *batch = scripts.batch(shape)) {
            load(*batch);
        }
        has_permits = has_permits || shape.holds_permits();
    }
    for (const rate_limit::Algorithm algorithm : settings.settled) {
        load(scripts.settlement(algorithm, SettlementKind::debt));
        load(scripts.settlement(algorithm, SettlementKind::refund));
    }
    if (has_permits) {
        load(scripts.release());
    }
}

void Login::add(std::string_view name, std::initializer_list<std::string_view> words) {
    names_.push_back(name);
    write_command(commands_, words);
}

std::string_view Login::begin() {
    replies_ = 0;
    return commands_.bytes();
}

bool Login::expects_list() const {
    return replies_ < names_.size() && names_[replies_] == role;
}

Login::Step Login::take(Reply::Type type, std::string_view text) {
    const std::string_view command = names_[replies_++];
    const Step well{.kind = replies_ == names_.size() ? Step::Kind::done : Step::Kind::more};
    if (command == role && type != Reply::Type::error) {
        const bool is_master = type == Reply::Type::list && text == "master";
        return is_master ? well
                         : Step{.kind = Step::Kind::broken, .what = role, .redis_said = text};
    }
    return type == Reply::Type::text ? well : refuse(command, text);
}

Login::Step Login::refuse(std::string_view command, std::string_view redis_said) {
    if (redis_said.starts_with("ERR max number of clients")) {
        // Redis says so unasked, before any reply.
        return {.kind = Step::Kind::broken, .what = "connecting", .redis_said = redis_said};
    }
    return {.kind = is_refusal(redis_said) ? Step::Kind::refused : Step::Kind::broken,
            .what = command,
            .redis_said = command == auth ? refusal_of_auth(redis_said) : redis_said};
}

} // namespace redis_client
