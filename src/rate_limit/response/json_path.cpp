#include "rate_limit/response/json_path.hpp"

#include <algorithm>
#include <utility>

namespace rate_limit {

namespace {

PathSet JsonPaths::Level::*set_of(PathStep::Kind kind) {
    switch (kind) {
    case PathStep::Kind::member:
        return &JsonPaths::Level::members;
    case PathStep::Kind::any_member:
        return &JsonPaths::Level::any_member;
    case PathStep::Kind::element:
        return &JsonPaths::Level::elements;
    case PathStep::Kind::any_element:
        break;
    }
    return &JsonPaths::Level::any_element;
}

} // namespace

std::optional<size_t> JsonPaths::add(JsonPath path) {
    const auto known = std::ranges::find_if(paths_, [&path](const JsonPath &other) {
        return other.steps == path.steps && other.kept == path.kept;
    });
    if (known != paths_.end()) {
        return known - paths_.begin();
    }
    if (paths_.size() == most) {
        return std::nullopt;
    }
    const PathSet bit = PathSet{1} << paths_.size();
    levels_.resize(std::max(levels_.size(), path.steps.size()));
    for (size_t depth = 0; depth < path.steps.size(); ++depth) {
        const PathStep &step = path.steps[depth];
        levels_[depth].*set_of(step.kind) |= bit;
        if (!step.name.empty()) {
            levels_[depth].first_bytes[static_cast<unsigned char>(step.name[0])] |= bit;
        }
    }
    levels_[path.steps.size() - 1].ends |= bit;
    largest_ |= path.kept == Kept::largest ? bit : 0;
    paths_.push_back(std::move(path));
    return paths_.size() - 1;
}

} // namespace rate_limit
