#include "redis_client/wire/resp.hpp"

#include "rate_limit/text/text_writer.hpp"

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

constexpr size_t longest_frame = sizeof(Prefix) + 2; // of the bytes around a word

/// The decimal digits of a number.
class Digits {
  public:
    explicit Digits(uint64_t number)
        : size_(static_cast<size_t>(
              std::to_chars(text_.data(), text_.data() + text_.size(), number).ptr -
              text_.data())) {}
    std::string_view view() const { return {text_.data(), size_}; }

  private:
    std::array<char, 20> text_;
    size_t size_;
};

} // namespace

CommandWriter::CommandWriter(ByteQueue &out, size_t words, size_t bytes)
    : out_(out), ok_(out.reserve((words + 1) * longest_frame + bytes)) {
    if (ok_) {
        out_.append(Prefix('*', words).view());
    }
}

void CommandWriter::word(std::string_view word) {
    this->word(word, {});
}

void CommandWriter::word(std::string_view first_part, std::string_view second_part) {
    out_.append(Prefix('$', first_part.size() + second_part.size()).view());
    out_.append(first_part);
    out_.append(second_part);
    out_.append("\r\n");
}

void CommandWriter::word(uint64_t number) {
    word(Digits(number).view());
}

void CommandWriter::wire(const WireWords &words) {
    out_.append(words.bytes());
}

void CommandWriter::wire(const WireWords &words, std::string_view late_word) {
    out_.append(words.before_late_word());
    word(late_word);
    out_.append(words.behind_late_word());
}

bool write_command(ByteQueue &out, std::initializer_list<std::string_view> words) {
    size_t bytes = 0;
    for (const std::string_view word : words) {
        bytes += word.size();
    }
    CommandWriter command(out, words.size(), bytes);
    if (!command.ok()) {
        return false;
    }
    for (const std::string_view word : words) {
        command.word(word);
    }
    return true;
}

void WireWords::add(std::string_view word) {
    const Prefix prefix('$', word.size());
    for (const std::string_view part : {prefix.view(), word, std::string_view("\r\n")}) {
        rate_limit::append(bytes_.data() + size_, part);
        size_ += part.size();
    }
    ++count_;
}

void WireWords::add_late_word() {
    late_at_ = size_;
    ++count_;
}

void WireWords::add(uint64_t number) {
    add(Digits(number).view());
}

/// hiredis calls these functions while it parses. A null result refuses the reply.
class ReplyBuilder {
  public:
    static void *string(const redisReadTask *task, char *text, size_t size) {
        const bool is_error = task->type == REDIS_REPLY_ERROR;
        Reply *reply = start(task, is_error ? Reply::Type::error : Reply::Type::text);
        const bool is_first =
            task->parent != nullptr && task->parent->parent == nullptr && task->idx == 0;
        if (task->parent == nullptr || is_first) {
            reply->size_ = size;
            reply->text_size_ = std::min(size, reply->text_.size());
            std::copy_n(text, reply->text_size_, reply->text_.data());
        }
        return reply;
    }

    // The count is an int in hiredis 0.14 and a size_t in 1.x.
    template <typename Count>
    static void *array(const redisReadTask *task, Count /*count*/) {
        const bool is_taken = static_cast<const Reply *>(task->privdata)->takes_lists_;
        return is_taken ? start(task, Reply::Type::list) : nullptr;
    }

    static void *integer(const redisReadTask *task, long long /*number*/) {
        return start(task, Reply::Type::number);
    }

    static void *nil(const redisReadTask *task) { return start(task, Reply::Type::nil); }

    static void release(void * /*reply*/) {}

#if HIREDIS_MAJOR >= 1
    // These types belong to RESP3, which nobody asked Redis for.
    static void *real(const redisReadTask * /*task*/, double /*number*/, char * /*text*/,
                      size_t /*size*/) {
        return nullptr;
    }
    static void *boolean(const redisReadTask * /*task*/, int /*truth*/) {
        return nullptr;
    }
#endif

  private:
    /// A list stays a list when it gets an element.
    static Reply *start(const redisReadTask *task, Reply::Type type) {
        auto *reply = static_cast<Reply *>(task->privdata);
        if (task->parent == nullptr) {
            reply->type_ = type;
            reply->size_ = reply->text_size_ = 0;
        }
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
    fed_ = begin_ = 0;
    broken_ = reader_ == nullptr;
    if (!broken_) {
        reader_->privdata = &reply_;
    }
}

void ReplyReader::feed(std::string_view bytes) {
    fed_ += bytes.size();
    broken_ = broken_ || redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK;
}

ReplyReader::Next ReplyReader::next() {
    void *reply = nullptr;
    if (broken_ || redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
        broken_ = true;
        return Next::broken;
    }
    const uint64_t end = reply != nullptr ? fed_ - (reader_->len - reader_->pos) : fed_;
    if (end - begin_ > longest_reply) {
        broken_ = true;
        return Next::broken;
    }
    if (reply == nullptr) {
        return Next::incomplete;
    }
    begin_ = end;
    return Next::reply;
}

} // namespace redis_client
