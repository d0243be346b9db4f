// Replies of any shape, for rare questions: to Sentinels, and for the slot map of a cluster.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

struct redisReader;
struct redisReply;

namespace redis_client {

/// A reply, or an element of one. It is valid as long as its tree.
class ReplyView {
  public:
    explicit ReplyView(const redisReply &reply) : reply_(&reply) {}

    bool is_error() const;
    /// The text of a status, a bulk string or an error; other replies have none.
    std::optional<std::string_view> text() const;
    std::optional<long long> number() const;
    /// The size of an array; other replies have 0.
    size_t size() const;
    ReplyView operator[](size_t i) const;
    /// A nil, or an array without elements.
    bool is_empty() const;

  private:
    const redisReply *reply_;
};

/// Cuts a byte stream into replies. A reply may have so many bytes in all, in whatever pieces it
/// comes.
class ReplyTreeReader {
  public:
    explicit ReplyTreeReader(size_t longest_reply);

    enum class Next {
        reply,      // reply() holds it until the next call
        incomplete, // more bytes are needed
        broken,     // not RESP2, too long or too deep; nothing more can be read
    };

    void feed(std::string_view bytes);
    Next next();
    ReplyView reply() const { return ReplyView(*reply_); }

    /// Feeds the bytes, and calls `take` with each reply that is whole, until it returns false.
    /// Returns false if the bytes are broken.
    template <typename Take>
    bool read(std::string_view bytes, const Take &take) {
        feed(bytes);
        Next step = next();
        while (step == Next::reply && take(reply())) {
            step = next();
        }
        return step != Next::broken;
    }

    /// Begins anew, for a new connection.
    void reset();

  private:
    struct FreeReader {
        void operator()(redisReader *reader) const;
    };
    struct FreeReply {
        void operator()(redisReply *reply) const;
    };

    size_t longest_reply_;
    std::unique_ptr<redisReader, FreeReader> reader_;
    std::unique_ptr<redisReply, FreeReply> reply_;
    size_t unread_ = 0; // bytes since the end of the last reply
    bool broken_ = false;
};

} // namespace redis_client
