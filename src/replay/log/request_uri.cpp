#include "replay/log/request_uri.hpp"

#include "rate_limit/text/url_text.hpp"

#include <algorithm>

namespace replay {

namespace {

/// Returns the path of a URI with a scheme and a host, which proxies' clients send.
std::string_view without_host(std::string_view uri) {
    const size_t scheme = uri.find("://");
    if (uri.starts_with('/') || scheme == std::string_view::npos) {
        return uri;
    }
    const size_t path = uri.find_first_of("/?#", scheme + 3);
    return path == std::string_view::npos || uri[path] != '/' ? std::string_view("/")
                                                              : uri.substr(path);
}

bool are_equal_but_for_case(std::string_view one, std::string_view other) {
    return std::ranges::equal(one, other, {}, small_letter, small_letter);
}

/// Takes the last segment off a path that ends in a slash. Returns false at the root.
bool take_segment(std::string &path) {
    if (path.size() < 2) {
        return false;
    }
    path.pop_back();
    path.resize(path.rfind('/') + 1);
    return true;
}

} // namespace

std::optional<RequestLine> read_request_line(std::string_view line) {
    const size_t end_of_method = line.find(' ');
    if (end_of_method == std::string_view::npos || end_of_method == 0) {
        return std::nullopt;
    }
    RequestLine request{.method = line.substr(0, end_of_method),
                        .uri = line.substr(end_of_method + 1),
                        .protocol = {}};
    const size_t last_space = request.uri.rfind(' ');
    if (last_space != std::string_view::npos &&
        request.uri.substr(last_space + 1).starts_with("HTTP/")) {
        request.protocol = request.uri.substr(last_space + 1);
        request.uri = request.uri.substr(0, last_space);
    }
    request.uri = without_host(request.uri);
    return request.uri.empty() ? std::nullopt : std::optional(request);
}

std::string_view arguments_of(std::string_view uri) {
    uri = uri.substr(0, uri.find('#'));
    const size_t mark = uri.find('?');
    return mark == std::string_view::npos ? std::string_view() : uri.substr(mark + 1);
}

std::string_view argument_of(std::string_view arguments, std::string_view name) {
    while (!arguments.empty()) {
        const std::string_view one = arguments.substr(0, arguments.find('&'));
        if (one.size() > name.size() && one[name.size()] == '=' &&
            are_equal_but_for_case(one.substr(0, name.size()), name)) {
            return one.substr(name.size() + 1);
        }
        arguments.remove_prefix(std::min(one.size() + 1, arguments.size()));
    }
    return {};
}

std::optional<std::string_view> normalised_path(std::string_view uri, std::string &buffer) {
    const std::string_view path = uri.substr(0, uri.find_first_of("?#"));
    if (!path.starts_with('/')) {
        return std::nullopt;
    }
    if (path.find('%') == std::string_view::npos && path.find("//") == std::string_view::npos &&
        path.find("/.") == std::string_view::npos) {
        return path;
    }
    std::string decoded_bytes(path.size(), '\0');
    const auto decoded = rate_limit::decode_percent(path, decoded_bytes);
    if (!decoded || decoded->find('\0') != std::string_view::npos) {
        return std::nullopt;
    }
    buffer = "/";
    std::string_view rest = decoded->substr(1);
    while (true) {
        const size_t slash = rest.find('/');
        const std::string_view segment = rest.substr(0, slash);
        const bool is_last = slash == std::string_view::npos;
        if (segment == "..") {
            if (!take_segment(buffer)) {
                return std::nullopt;
            }
        } else if (!segment.empty() && segment != ".") {
            buffer += segment;
            buffer += is_last ? "" : "/";
        }
        if (is_last) {
            return buffer;
        }
        rest.remove_prefix(slash + 1);
    }
}

} // namespace replay
