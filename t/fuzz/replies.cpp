// A stream of replies: the same in whatever pieces it comes, and as a reader of RESP that knows the
// shapes of our replies alone, and takes all bytes at once, reads it.

#include "pieces.hpp"
#include "redis_client/wire/resp.hpp"
#include "targets.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <vector>

namespace fuzz {
namespace {

using redis_client::Reply;
using redis_client::ReplyReader;

struct Read {
    Reply::Type type;
    std::string text;
    bool operator==(const Read &) const = default;
};

struct Stream {
    std::vector<Read> replies;
    bool is_broken = false;
    bool operator==(const Stream &) const = default;
};

bool take(ReplyReader &reader, std::string_view piece, Stream &stream) {
    reader.feed(piece);
    for (;;) {
        switch (reader.next()) {
        case ReplyReader::Next::incomplete:
            return true;
        case ReplyReader::Next::broken:
            stream.is_broken = true;
            return false;
        case ReplyReader::Next::reply:
            break;
        }
        const Reply &reply = reader.reply();
        require(reply.text().size() == std::min(reply.size(), Reply::longest_text),
                "a text is cut at its longest");
        require(reply.size() <= ReplyReader::longest_reply, "no reply is too long");
        stream.replies.push_back({reply.type(), std::string(reply.text())});
    }
}

Stream read(std::string_view bytes, std::string_view piece_sizes, bool takes_lists) {
    ReplyReader reader;
    reader.take_lists(takes_lists);
    Stream stream;
    for (Pieces pieces(bytes, piece_sizes);
         !pieces.empty() && take(reader, pieces.take(), stream);) {
    }
    return stream;
}

/// Up to the end of the line, which is taken too; nothing where it does not end.
std::optional<std::string_view> take_line(std::string_view &bytes) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 2);
    return line;
}

/// Without a plus and without zeros in front.
std::optional<int64_t> number_of(std::string_view text) {
    int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return std::to_string(number) == text ? std::optional(number) : std::nullopt;
}

/// Takes a bulk string after its first byte; nothing where it is not whole.
std::optional<Read> take_bulk_string(std::string_view &bytes) {
    const auto line = take_line(bytes);
    const auto size = line ? number_of(*line) : std::nullopt;
    if (size == -1) {
        return Read{Reply::Type::nil, ""};
    }
    if (!size || *size < 0 || bytes.size() < 2 || bytes.size() - 2 < static_cast<uint64_t>(*size)) {
        return std::nullopt;
    }
    const auto text = bytes.substr(0, static_cast<size_t>(*size));
    bytes.remove_prefix(text.size() + 2);
    return Read{Reply::Type::text, std::string(text.substr(0, Reply::longest_text))};
}

/// The whole reply at the front, if it has one of our shapes and is well-formed.
std::optional<Read> take_reply(std::string_view &bytes) {
    if (bytes.empty()) {
        return std::nullopt;
    }
    const char kind = bytes.front();
    bytes.remove_prefix(1);
    if (kind == '$') {
        return take_bulk_string(bytes);
    }
    const auto line = take_line(bytes);
    if (!line) {
        return std::nullopt;
    }
    const std::string text(line->substr(0, Reply::longest_text));
    switch (kind) {
    case '+':
        return Read{Reply::Type::text, text};
    case '-':
        return Read{Reply::Type::error, text};
    case ':':
        return number_of(*line) ? std::optional(Read{Reply::Type::number, ""}) : std::nullopt;
    case '*':
        return *line == "-1" ? std::optional(Read{Reply::Type::nil, ""}) : std::nullopt;
    default:
        return std::nullopt;
    }
}

/// Where lists are refused: of theirs the reader keeps too little.
void check_well_formed(std::string_view bytes, const Stream &stream) {
    for (const Read &one : stream.replies) {
        const auto expected = take_reply(bytes);
        require(expected == one, "each reply is well-formed");
    }
    const size_t left_over = bytes.size();
    const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
    if (line.find_first_of("\r\n") != std::string_view::npos) {
        return; // hiredis 0.14 takes such a line, 1.x does not
    }
    const auto next = take_reply(bytes);
    require(!next || left_over - bytes.size() > ReplyReader::longest_reply,
            "no well-formed reply is left over");
}

} // namespace

void replies(Input input) {
    const std::string_view piece_sizes = input.text(8);
    const bool takes_lists = input.flag();
    std::string bytes(input.text(255));
    if (input.flag()) { // into a long reply
        bytes.append(input.number(0, 2 * ReplyReader::longest_reply), 'x');
    }
    bytes += input.rest();
    const Stream whole = read(bytes, one_piece, takes_lists);
    constexpr size_t short_stream = 1024; // hiredis reads a line anew with each of its pieces
    const bool is_short = bytes.size() <= short_stream;
    require(read(bytes, is_short ? single_bytes : piece_sizes, takes_lists) == whole,
            "in other pieces: the same replies");
    if (!takes_lists) {
        check_well_formed(bytes, whole);
    }
}

} // namespace fuzz
