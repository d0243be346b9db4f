// Texts with variables whose values a log line gives: itself, or by what it has of the request line
// and the client's address, or by a `map`.
#pragma once

#include "replay/log/request.hpp"
#include "replay/syntax/variable_text.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace replay {

class Variables;

/// A text that is ready to be evaluated.
class CompiledText {
  public:
    /// Returns the text for a request. It may be in `buffer`.
    std::string_view evaluate(const Variables &variables, const Request &request,
                              std::string &buffer) const;

  private:
    friend class Variables;

    /// A variable, or where that is empty, literal text.
    struct Part {
        std::string literal;
        std::optional<size_t> variable; // in Variables
    };
    std::vector<Part> parts_;
};

class Variables {
  public:
    explicit Variables(const LogFormat &format);

    /// Adds a `map` directive. Maps may refer to those that are added later.
    std::optional<Error> add_map(const Directive &map);

    /// Returns why a variable of the text cannot be evaluated.
    std::variant<CompiledText, Error> compile(std::string_view text);

    /// Returns the client's address in bytes, perhaps in `buffer`. It is empty if no text takes
    /// something from it.
    std::string_view address(const Request &request, std::string &buffer) const;

    const Request::Fields &request_fields() const { return request_fields_; }
    /// Whether a text that was compiled takes something from this field of the log, or it tells
    /// whether a line holds a request.
    bool uses(size_t field) const { return is_used_[field]; }

  private:
    friend class CompiledText;

    /// How the value of a variable is found.
    enum class Kind {
        field, // of the log, at `index`
        method,
        protocol,
        request_uri,
        path,
        arguments,
        argument,       // of that name
        is_arguments,   // `?` if there are some
        binary_address, // of the field at `index`
        network,        // of the field at `index`, cut to `bits`
        map,            // at `index`
    };
    struct Variable {
        std::string name;
        Kind kind;
        size_t index = 0;
        unsigned bits = 0;
    };
    struct Map {
        const Directive *directive;
        std::string variable; // the name of the one that it sets
        bool is_being_compiled = false;
        CompiledText source;
        std::unordered_map<std::string, CompiledText> values; // by their keys in small letters
        CompiledText otherwise;
    };

    std::variant<size_t, Error> find(std::string_view name);
    std::optional<Variable> known(std::string_view name) const;
    std::optional<Error> compile_map(Map &map);
    std::string_view evaluate(const Variable &variable, const Request &request,
                              std::string &buffer) const;
    std::string_view evaluate_map(const Map &map, const Request &request,
                                  std::string &buffer) const;

    const LogFormat &format_;
    Request::Fields request_fields_;
    std::vector<bool> is_used_; // by the fields' indexes
    std::vector<Variable> variables_;
    std::vector<std::unique_ptr<Map>> maps_;
};

} // namespace replay
