// The Redis protocol, RESP2: commands out, replies in.
#pragma once

#include "redis_client/wire/byte_queue.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

struct redisReader;

namespace redis_client {

/// A few words of commands, mostly numbers, in wire form (`$3\r\nfoo\r\n`). They are made
/// beforehand.
class WireWords {
  public:
    void add(std::string_view word); // of at most 20 bytes
    void add(uint64_t number);
    /// Leaves a place for a word that is known when the command is written: one at most.
    void add_late_word();

    std::string_view bytes() const { return {bytes_.data(), size_}; } // without the late word
    size_t count() const { return count_; }
    bool has_late_word() const { return late_at_ != no_late_word; }
    std::string_view before_late_word() const { return bytes().substr(0, late_at_); }
    std::string_view behind_late_word() const { return bytes().substr(late_at_); }

    static constexpr size_t most = 9;

  private:
    static constexpr size_t longest_word = 20 + sizeof("$20\r\n\r\n") - 1;
    static constexpr size_t no_late_word = SIZE_MAX;
    std::array<char, most * longest_word> bytes_;
    size_t size_ = 0;
    size_t count_ = 0;
    size_t late_at_ = no_late_word; // in bytes_
};

/// Writes one command to a queue. The bytes are those of redisFormatCommandArgv of hiredis.
class CommandWriter {
  public:
    /// Announces `words` words of at most `bytes` bytes in all. If ok() is false memory ran out:
    /// nothing was written, and no word may follow.
    CommandWriter(ByteQueue &out, size_t words, size_t bytes);
    bool ok() const { return ok_; }

    void word(std::string_view word);
    void word(std::string_view first_part, std::string_view second_part); // one word
    void word(uint64_t number);
    void wire(const WireWords &words);
    void wire(const WireWords &words, std::string_view late_word);

  private:
    ByteQueue &out_;
    bool ok_;
};

/// Writes a command of a few words. Returns false if memory ran out; then nothing was written.
bool write_command(ByteQueue &out, std::initializer_list<std::string_view> words);

/// A reply of one of the shapes that our commands have. Replies of other shapes are refused.
class Reply {
  public:
    enum class Type {
        text,   // a status or a bulk string
        error,  // text() is its message
        nil,    //
        number, //
        list,   // text() is its first element if that is a text; the others are not kept
    };

    static constexpr size_t longest_text = 4096;

    Type type() const { return type_; }
    std::string_view text() const { return {text_.data(), text_size_}; } // its first 4096 bytes
    size_t size() const { return size_; }                                // of the whole text

  private:
    friend class ReplyBuilder;
    friend class ReplyReader;

    bool takes_lists_ = false;
    Type type_ = Type::nil;
    size_t size_ = 0;
    size_t text_size_ = 0;
    std::array<char, longest_text> text_;
};

/// Cuts a byte stream into replies. Memory is bounded whatever the stream claims: a reply is kept
/// in `Reply` and never by its declared size, and a reply that is not complete within
/// `longest_reply` bytes is refused, in whatever pieces it came.
class ReplyReader {
  public:
    static constexpr size_t longest_reply = 16384;

    enum class Next {
        reply,      // reply() holds it until the next call
        incomplete, // more bytes are needed
        broken,     // not RESP, or none of our shapes; it takes a new connection
    };

    ReplyReader();
    ReplyReader(const ReplyReader &) = delete; // hiredis knows reply_ by its address
    ReplyReader &operator=(const ReplyReader &) = delete;

    void feed(std::string_view bytes);
    Next next();
    const Reply &reply() const { return reply_; }

    /// Whether lists are taken from here on. Only ROLE is answered by one.
    void take_lists(bool takes) { reply_.takes_lists_ = takes; }

    /// Begins anew, for a new connection.
    void reset();

  private:
    struct Free {
        void operator()(redisReader *reader) const;
    };

    std::unique_ptr<redisReader, Free> reader_;
    Reply reply_;
    uint64_t fed_ = 0;   // all bytes so far
    uint64_t begin_ = 0; // which of them is the first of the reply that is being read
    bool broken_ = false;
};

/// Takes the first word off a text of words with single spaces between them, as errors and messages
/// of Redis are, and returns it.
inline std::string_view next_word(std::string_view &text) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size() < text.size() ? word.size() + 1 : word.size());
    return word;
}

} // namespace redis_client
