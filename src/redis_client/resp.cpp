#include "resp.hpp"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>

namespace redis_client {

namespace {

/// `*3\r\n` or `$3\r\n`
class Prefix {
  public:
    Prefix(char kind, size_t number) {
        text_[0] = kind;
        char *end = std::to_chars(text_.data() + 1, text_.data() + text_.size() - 2, number).ptr;
        *end++ = '\r';
        *end++ = '\n';
        size_ = static_cast<size_t>(end - text_.data());
    }
    std::string_view view() const { return {text_.data(), size_}; }

  private:
    std::array<char, 1 + 20 + 2> text_;
    size_t size_;
};

} // namespace

std::string bulk_string(std::string_view word) {
    return std::string(Prefix('$', word.size()).view()) + std::string(word) + "\r\n";
}

bool write_command(ByteQueue &out, std::initializer_list<std::string_view> words,
                   const WireWords &more_words) {
    constexpr size_t longest_frame = sizeof(Prefix) + 2;
    size_t size = longest_frame + more_words.bytes.size();
    for (const std::string_view word : words) {
        size += longest_frame + word.size();
    }
    if (!out.reserve(size)) {
        return false;
    }
    out.append(Prefix('*', words.size() + more_words.count).view());
    for (const std::string_view word : words) {
        out.append(Prefix('$', word.size()).view());
        out.append(word);
        out.append("\r\n");
    }
    out.append(more_words.bytes);
    return true;
}

/// hiredis's view of a Reply: it calls these while it parses. A null result refuses the reply.
class ReplyBuilder {
  public:
    static void *string(const redisReadTask *task, char *text, size_t size) {
        const bool is_error = task->type == REDIS_REPLY_ERROR;
        Reply *reply = start(task, is_error ? Reply::Type::error : Reply::Type::text);
        if (reply != nullptr) {
            reply->text_size_ = std::min(size, reply->text_.size());
            std::copy_n(text, reply->text_size_, reply->text_.data());
        }
        return reply;
    }

    // The count is an int in hiredis 0.14 and a size_t in 1.x.
    template <typename Count>
    static void *array(const redisReadTask *task, Count count) {
        Reply *reply = start(task, Reply::Type::numbers);
        const bool fits = reply != nullptr && task->type == REDIS_REPLY_ARRAY &&
                          static_cast<size_t>(count) <= reply->numbers_.size();
        return fits ? reply : nullptr;
    }

    static void *integer(const redisReadTask *task, long long number) {
        Reply *reply = task->parent != nullptr ? static_cast<Reply *>(task->privdata)
                                               : start(task, Reply::Type::numbers);
        reply->numbers_[reply->count_++] = number;
        return reply;
    }

    static void *nil(const redisReadTask *task) { return start(task, Reply::Type::nil); }

    static void release(void * /*reply*/) {}

#if HIREDIS_MAJOR >= 1
    // RESP3's types, which nobody asked Redis for.
    static void *real(const redisReadTask * /*task*/, double /*number*/, char * /*text*/,
                      size_t /*size*/) {
        return nullptr;
    }
    static void *boolean(const redisReadTask * /*task*/, int /*truth*/) {
        return nullptr;
    }
#endif

  private:
    /// A new reply; null inside an array, where only integers may stand.
    static Reply *start(const redisReadTask *task, Reply::Type type) {
        if (task->parent != nullptr) {
            return nullptr;
        }
        auto *reply = static_cast<Reply *>(task->privdata);
        reply->type_ = type;
        reply->text_size_ = 0;
        reply->count_ = 0;
        return reply;
    }
};

namespace {

redisReplyObjectFunctions builder_functions = {
    .createString = ReplyBuilder::string,
    .createArray = ReplyBuilder::array,
    .createInteger = ReplyBuilder::integer,
#if HIREDIS_MAJOR >= 1
    .createDouble = ReplyBuilder::real,
#endif
    .createNil = ReplyBuilder::nil,
#if HIREDIS_MAJOR >= 1
    .createBool = ReplyBuilder::boolean,
#endif
    .freeObject = ReplyBuilder::release,
};

} // namespace

ReplyReader::ReplyReader() {
    reset();
}

void ReplyReader::Free::operator()(redisReader *reader) const {
    redisReaderFree(reader);
}

void ReplyReader::reset() {
    reader_.reset(redisReaderCreateWithFunctions(&builder_functions));
    broken_ = reader_ == nullptr;
    if (!broken_) {
        reader_->privdata = &reply_;
    }
}

void ReplyReader::feed(std::string_view bytes) {
    broken_ = broken_ || redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK;
}

ReplyReader::Next ReplyReader::next() {
    void *reply = nullptr;
    if (broken_ || redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
        broken_ = true;
        return Next::broken;
    }
    if (reply != nullptr) {
        return Next::reply;
    }
    broken_ = reader_->len - reader_->pos > longest_reply;
    return broken_ ? Next::broken : Next::incomplete;
}

} // namespace redis_client
