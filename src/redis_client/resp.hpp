// The Redis protocol, RESP2: commands out, replies in.
#pragma once

#include "byte_queue.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct redisReader;

namespace redis_client {

/// The wire form of a word of a command: `$3\r\nfoo\r\n`.
std::string bulk_string(std::string_view word);

/// Words of a command in wire form, made beforehand.
struct WireWords {
    std::string bytes; // a bulk_string() for each
    size_t count = 0;
};

/// Writes a command, the bytes that hiredis's redisFormatCommandArgv gives. False without memory,
/// and nothing was written.
bool write_command(ByteQueue &out, std::initializer_list<std::string_view> words,
                   const WireWords &more_words = {});

/// The shapes of replies that our commands have. Redis sends others too; they are refused.
class Reply {
  public:
    enum class Type {
        text,    // a status or a bulk string
        error,   // text() is its message
        nil,     //
        numbers, // one integer, or a flat array of integers
    };

    Type type() const { return type_; }
    std::string_view text() const { return {text_.data(), text_size_}; } // the first 256 bytes
    std::span<const int64_t> numbers() const { return {numbers_.data(), count_}; }

  private:
    friend class ReplyBuilder;

    Type type_ = Type::nil;
    size_t text_size_ = 0;
    size_t count_ = 0;
    std::array<char, 256> text_;
    std::array<int64_t, 8> numbers_;
};

/// Cuts a byte stream into replies. Memory is bounded whatever the stream claims: a reply is kept
/// in `Reply` and never by its declared size, and a reply that is not complete within
/// `longest_reply` bytes is refused.
class ReplyReader {
  public:
    static constexpr size_t longest_reply = 16384;

    enum class Next {
        reply,      // reply() holds it until the next call
        incomplete, // feed more
        broken,     // not RESP, or none of our shapes; for good: start a new connection
    };

    ReplyReader();
    ReplyReader(const ReplyReader &) = delete; // hiredis knows reply_ by its address
    ReplyReader &operator=(const ReplyReader &) = delete;

    void feed(std::string_view bytes);
    Next next();
    const Reply &reply() const { return reply_; }

    /// Forgets everything, for a new connection.
    void reset();

  private:
    struct Free {
        void operator()(redisReader *reader) const;
    };

    std::unique_ptr<redisReader, Free> reader_;
    Reply reply_;
    bool broken_ = false;
};

} // namespace redis_client
