#include "redis_client/wire/reply_tree.hpp"

#include <hiredis/hiredis.h>

namespace redis_client {

namespace {

/// hiredis takes memory for an array by the size that is claimed, before its elements have come.
constexpr size_t most_elements = 20'000;

/// hiredis 1.x takes arrays of any depth, and frees them by recursion.
constexpr int deepest_array = 7;

bool is_too_deep(const redisReadTask &array) {
    int depth = 0;
    for (const redisReadTask *task = &array; task != nullptr; task = task->parent) {
        ++depth;
    }
    return depth > deepest_array;
}

template <typename>
struct CountOf;
template <typename Count>
struct CountOf<void *(*)(const redisReadTask *, Count)> {
    using Type = Count; // an int in hiredis 0.14 and a size_t in 1.x
};
using Count = CountOf<decltype(redisReplyObjectFunctions::createArray)>::Type;

/// These are the functions of hiredis that build a redisReply, within the bounds above.
redisReplyObjectFunctions &bounded_functions() {
    static redisReplyObjectFunctions hiredis_functions{};
    static redisReplyObjectFunctions functions = [] {
        redisReader *reader = redisReaderCreate();
        redisReplyObjectFunctions copy{};
        if (reader != nullptr) {
            hiredis_functions = copy = *reader->fn;
            redisReaderFree(reader);
            copy.createArray = [](const redisReadTask *task, Count count) -> void * {
                const bool is_bounded =
                    static_cast<size_t>(count) <= most_elements && !is_too_deep(*task);
                return is_bounded ? hiredis_functions.createArray(task, count) : nullptr;
            };
        }
        return copy;
    }();
    return functions;
}

} // namespace

bool ReplyView::is_error() const {
    return reply_->type == REDIS_REPLY_ERROR;
}

std::optional<std::string_view> ReplyView::text() const {
    const bool is_text = reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS ||
                         reply_->type == REDIS_REPLY_ERROR;
    return is_text ? std::optional(std::string_view(reply_->str, reply_->len)) : std::nullopt;
}

std::optional<long long> ReplyView::number() const {
    return reply_->type == REDIS_REPLY_INTEGER ? std::optional(reply_->integer) : std::nullopt;
}

size_t ReplyView::size() const {
    return reply_->type == REDIS_REPLY_ARRAY ? reply_->elements : 0;
}

ReplyView ReplyView::operator[](size_t i) const {
    return ReplyView(*reply_->element[i]);
}

bool ReplyView::is_empty() const {
    return reply_->type == REDIS_REPLY_NIL ||
           (reply_->type == REDIS_REPLY_ARRAY && reply_->elements == 0);
}

ReplyTreeReader::ReplyTreeReader(size_t longest_reply) : longest_reply_(longest_reply) {
    reset();
}

void ReplyTreeReader::FreeReader::operator()(redisReader *reader) const {
    redisReaderFree(reader);
}

void ReplyTreeReader::FreeReply::operator()(redisReply *reply) const {
    freeReplyObject(reply);
}

void ReplyTreeReader::reset() {
    reply_.reset();
    reader_.reset(redisReaderCreateWithFunctions(&bounded_functions()));
    broken_ = reader_ == nullptr || reader_->fn->createArray == nullptr;
    unread_ = 0;
}

void ReplyTreeReader::feed(std::string_view bytes) {
    unread_ += bytes.size();
    broken_ = broken_ || redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK;
}

ReplyTreeReader::Next ReplyTreeReader::next() {
    void *reply = nullptr;
    if (broken_ || redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
        broken_ = true;
        return Next::broken;
    }
    reply_.reset(static_cast<redisReply *>(reply));
    const size_t left = reply != nullptr ? reader_->len - reader_->pos : 0;
    broken_ = unread_ - left > longest_reply_;
    if (broken_) {
        return Next::broken;
    }
    if (reply == nullptr) {
        return Next::incomplete;
    }
    unread_ = left;
    return Next::reply;
}

} // namespace redis_client
