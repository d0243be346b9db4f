// Replies of any shape, for what is asked rarely: of Sentinels, and for the map of a cluster.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

struct redisReader;
struct redisReply;

namespace redis_client {

/// A reply, or an element of one. Valid as long as its tree.
class ReplyView {
  public:
    explicit ReplyView(const redisReply &reply) : reply_(&reply) {}

    bool is_error() const;
    /// Of a status, a bulk string or an error; nothing of others.
    std::optional<std::string_view> text() const;
    std::optional<long long> number() const;
    /// Of an array; none of others.
    size_t size() const;
    ReplyView operator[](size_t i) const;
    /// Nil, or an array of nothing.
    bool is_empty() const;

  private:
    const redisReply *reply_;
};

/// Cuts a byte stream into replies, each of which may take so many bytes in all, in whatever pieces
/// it comes.
class ReplyTreeReader {
  public:
    explicit ReplyTreeReader(size_t longest_reply);

    enum class Next {
        reply,      // reply() holds it until the next call
        incomplete, // feed more
        broken,     // not RESP2, too long or too deep; for good
    };

    void feed(std::string_view bytes);
    Next next();
    ReplyView reply() const { return ReplyView(*reply_); }

    /// Forgets everything, for a new connection.
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
    size_t unread_ = 0; // bytes fed since the last reply ended
    bool broken_ = false;
};

} // namespace redis_client
