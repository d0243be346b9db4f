#include "replay/rules/variables.hpp"

#include "rate_limit/settings/zone_parameters.hpp"
#include "rate_limit/text/client_network.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace replay {

namespace {

/// Writes the bytes of an address, or returns the text as it is if it is none.
std::string_view bytes_of_address(std::string_view text, std::string &buffer) {
    const std::string address(text);
    buffer.resize(sizeof(in6_addr));
    if (inet_pton(AF_INET6, address.c_str(), buffer.data()) == 1) {
        return buffer;
    }
    buffer.resize(sizeof(in_addr));
    return inet_pton(AF_INET, address.c_str(), buffer.data()) == 1 ? std::string_view(buffer)
                                                                   : text;
}

std::string_view network_of(std::string_view text, unsigned bits, std::string &buffer) {
    const std::string address(text);
    in6_addr bytes{};
    if (text.find(':') == std::string_view::npos ||
        inet_pton(AF_INET6, address.c_str(), &bytes) != 1) {
        return text;
    }
    rate_limit::NetworkText out;
    buffer = rate_limit::network_of(bytes, bits, out);
    return buffer;
}

} // namespace

std::string_view CompiledText::evaluate(const Variables &variables, const Request &request,
                                        std::string &buffer) const {
    if (parts_.size() == 1) {
        const Part &part = parts_.front();
        return part.variable
                   ? variables.evaluate(variables.variables_[*part.variable], request, buffer)
                   : std::string_view(part.literal);
    }
    std::string joined;
    std::string of_part;
    for (const Part &part : parts_) {
        joined += part.variable
                      ? variables.evaluate(variables.variables_[*part.variable], request, of_part)
                      : std::string_view(part.literal);
    }
    buffer = std::move(joined);
    return buffer;
}

Variables::Variables(const LogFormat &format)
    : format_(format),
      request_fields_{.request = format.field_of("request"),
                      .request_uri = format.field_of("request_uri"),
                      .uri = format.field_of("uri")},
      is_used_(format.fields()) {
    for (const auto &field :
         {request_fields_.request, request_fields_.request_uri, request_fields_.uri}) {
        if (field) { // the first of them tells whether there is a request
            is_used_[*field] = true;
            break;
        }
    }
}

std::optional<Error> Variables::add_map(const Directive &map) {
    if (map.words.size() != 3 || !map.words[2].starts_with('$') || !map.has_block) {
        return map.place + ": map: expected map $source $variable { ... }";
    }
    maps_.push_back(std::make_unique<Map>());
    maps_.back()->directive = &map;
    maps_.back()->variable = in_small_letters(std::string_view(map.words[2]).substr(1));
    return std::nullopt;
}

std::variant<CompiledText, Error> Variables::compile(std::string_view text) {
    auto parts = split_at_variables(text);
    if (auto *error = std::get_if<Error>(&parts)) {
        return *error;
    }
    CompiledText compiled;
    for (const TextPart &part : std::get<std::vector<TextPart>>(parts)) {
        CompiledText::Part &made = compiled.parts_.emplace_back();
        if (!part.is_variable) {
            made.literal = part.text;
            continue;
        }
        auto found = find(part.text);
        if (auto *error = std::get_if<Error>(&found)) {
            return *error;
        }
        made.variable = std::get<size_t>(found);
    }
    if (compiled.parts_.empty()) {
        compiled.parts_.emplace_back();
    }
    return compiled;
}

/// Returns the index of a variable, which is added if it was not used before.
std::variant<size_t, Error> Variables::find(std::string_view name) {
    const auto found = std::ranges::find(variables_, name, &Variable::name);
    if (found != variables_.end()) {
        if (found->kind == Kind::map && maps_[found->index]->is_being_compiled) {
            return "the value of $" + std::string(name) + " depends on itself";
        }
        return static_cast<size_t>(found - variables_.begin());
    }
    std::optional<Variable> variable = known(name);
    if (!variable) {
        return "the log has no $" + std::string(name);
    }
    switch (variable->kind) {
    case Kind::field:
    case Kind::binary_address:
    case Kind::network:
        is_used_[variable->index] = true;
        break;
    default:
        break;
    }
    variables_.push_back(*variable);
    const size_t index = variables_.size() - 1;
    if (variable->kind == Kind::map) {
        Map &map = *maps_[variable->index];
        map.is_being_compiled = true;
        const auto error = compile_map(map);
        map.is_being_compiled = false;
        if (error) {
            return *error;
        }
    }
    return index;
}

/// A value that the log has is the one that nginx worked out, also of a map.
std::optional<Variables::Variable> Variables::known(std::string_view name) const {
    Variable variable{.name = std::string(name), .kind = Kind::field};
    if (const auto field = format_.field_of(name)) {
        variable.index = *field;
        return variable;
    }
    const auto is_its_map = [&](const auto &map) { return map->variable == name; };
    if (const auto map = std::ranges::find_if(maps_, is_its_map); map != maps_.end()) {
        variable.kind = Kind::map;
        variable.index = static_cast<size_t>(map - maps_.begin());
        return variable;
    }
    const auto network = rate_limit::network_bits_of(name);
    if (network || name == rate_limit::variable_of_bytes) {
        const auto address = format_.field_of("remote_addr");
        variable.kind = network ? Kind::network : Kind::binary_address;
        variable.index = address.value_or(0);
        variable.bits = network.value_or(0);
        return address ? std::optional(variable) : std::nullopt;
    }
    struct OfRequest {
        std::string_view name;
        Kind kind;
        bool is_of_uri; // $request_uri has it, too
    };
    constexpr OfRequest of_request[] = {
        {"request_method", Kind::method, false},  {"server_protocol", Kind::protocol, false},
        {"request_uri", Kind::request_uri, true}, {"uri", Kind::path, true},
        {"document_uri", Kind::path, true},       {"args", Kind::arguments, true},
        {"query_string", Kind::arguments, true},  {"is_args", Kind::is_arguments, true},
    };
    for (const OfRequest &one : of_request) {
        if (name == one.name) {
            variable.kind = one.kind;
            const bool has_it = request_fields_.request.has_value() ||
                                (one.is_of_uri && request_fields_.request_uri.has_value());
            return has_it ? std::optional(variable) : std::nullopt;
        }
    }
    constexpr std::string_view argument = "arg_";
    if (name.starts_with(argument) && (request_fields_.request || request_fields_.request_uri)) {
        variable.kind = Kind::argument;
        return variable;
    }
    return std::nullopt;
}

std::string_view Variables::address(const Request &request, std::string &buffer) const {
    const auto found = std::ranges::find(variables_, Kind::binary_address, &Variable::kind);
    return found != variables_.end() ? evaluate(*found, request, buffer) : std::string_view();
}

std::optional<Error> Variables::compile_map(Map &map) {
    const auto set = [this](CompiledText &text, std::string_view words) -> std::optional<Error> {
        auto compiled = compile(words);
        if (auto *error = std::get_if<Error>(&compiled)) {
            return *error;
        }
        text = std::get<CompiledText>(std::move(compiled));
        return std::nullopt;
    };
    if (auto error = set(map.source, map.directive->words[1])) {
        return map.directive->place + ": map: " + *error;
    }
    if (auto error = set(map.otherwise, "")) {
        return error;
    }
    for (const Directive &line : map.directive->block) {
        const std::string_view key = line.name();
        if (line.words.size() == 1 && key == "volatile") {
            continue;
        }
        if (line.words.size() != 2 || key == "include" || key.starts_with('~')) {
            return line.place + ": map: cannot evaluate \"" + std::string(key) +
                   "\", expected exact texts and default with a value each";
        }
        const bool has_backslash = key.starts_with('\\');
        CompiledText &text = key == "default"
                                 ? map.otherwise
                                 : map.values[in_small_letters(key.substr(has_backslash ? 1 : 0))];
        if (auto error = set(text, line.words[1])) {
            return line.place + ": map: " + *error;
        }
    }
    return std::nullopt;
}

std::string_view Variables::evaluate(const Variable &variable, const Request &request,
                                     std::string &buffer) const {
    switch (variable.kind) {
    case Kind::field:
        return request.value(variable.index, buffer);
    case Kind::method:
        return request.line().method;
    case Kind::protocol:
        return request.line().protocol;
    case Kind::request_uri:
        return request.line().uri;
    case Kind::path:
        return request.path().value_or(std::string_view());
    case Kind::arguments:
        return arguments_of(request.line().uri);
    case Kind::argument:
        return argument_of(arguments_of(request.line().uri),
                           std::string_view(variable.name).substr(4));
    case Kind::is_arguments:
        return arguments_of(request.line().uri).empty() ? "" : "?";
    case Kind::binary_address:
        return bytes_of_address(request.value(variable.index, buffer), buffer);
    case Kind::network:
        return network_of(request.value(variable.index, buffer), variable.bits, buffer);
    case Kind::map:
        break;
    }
    return evaluate_map(*maps_[variable.index], request, buffer);
}

std::string_view Variables::evaluate_map(const Map &map, const Request &request,
                                         std::string &buffer) const {
    const std::string key = in_small_letters(map.source.evaluate(*this, request, buffer));
    const auto found = map.values.find(key);
    const CompiledText &text = found != map.values.end() ? found->second : map.otherwise;
    return text.evaluate(*this, request, buffer);
}

} // namespace replay
