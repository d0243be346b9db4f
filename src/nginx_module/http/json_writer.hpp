// Writes JSON into the request's pool.
#pragma once

#include "nginx_module/ngx.hpp"

#include "rate_limit/text/text.hpp"

#include <rapidjson/prettywriter.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nginx_module {

/// Is written as null.
struct Null {};

class JsonWriter {
  public:
    explicit JsonWriter(ngx_pool_t *pool)
        : stream_(pool), writer_(stream_, &memory_, deepest_level) {
        writer_.SetIndent(' ', 2);
    }

    void begin_object() { writer_.StartObject(); }
    void end_object() { writer_.EndObject(); }
    void begin_array() { writer_.StartArray(); }
    void end_array() { writer_.EndArray(); }
    void name(std::string_view text) { value(text); }

    void value(Null /*null*/) { writer_.Null(); }
    template <std::same_as<bool> Flag>
    void value(Flag flag) {
        writer_.Bool(flag);
    }
    template <std::same_as<uint64_t> Number>
    void value(Number number) {
        writer_.Uint64(number);
    }
    /// The text must be valid UTF-8: see rate_limit::Readable.
    void value(std::string_view text) {
        writer_.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
    }
    void value(rate_limit::Seconds seconds) {
        std::array<char, 32> digits;
        rate_limit::TextWriter text(digits);
        text << seconds;
        writer_.RawValue(digits.data(), text.size(), rapidjson::kNumberType);
    }
    template <typename Value>
    void value(const std::optional<Value> &perhaps) {
        if (perhaps) {
            value(*perhaps);
        } else {
            value(Null{});
        }
    }
    template <typename Value>
    void member(std::string_view its_name, const Value &its_value) {
        name(its_name);
        value(its_value);
    }

    /// Returns the text, which is complete. Its buffer is null if memory ran out.
    ngx_chain_t finish() { return stream_.finish(); }

  private:
    // These two have the members that RapidJSON asks for, under its names.
    // NOLINTBEGIN(readability-identifier-naming)

    /// The text, in buffers of the pool. After memory has run out it takes no more.
    class Stream {
      public:
        using Ch = char;
        explicit Stream(ngx_pool_t *pool) : pool_(pool) {}
        void Put(char c) {
            if (last_ == nullptr || last_->buf->last == last_->buf->end) {
                add_buffer();
            }
            if (!is_short_of_memory_) {
                *last_->buf->last++ = static_cast<u_char>(c);
            }
        }
        void Flush() {}

        ngx_chain_t finish() {
            Put('\n');
            return is_short_of_memory_ ? ngx_chain_t{} : *first_;
        }

      private:
        void add_buffer();

        ngx_pool_t *pool_;
        ngx_chain_t *first_ = nullptr;
        ngx_chain_t *last_ = nullptr;
        bool is_short_of_memory_ = false;
    };

    /// Memory for the writer's stack of levels, so that it takes none that could run out.
    class Memory {
      public:
        static constexpr bool kNeedFree = false;
        void *Malloc(size_t size) { return size <= bytes_.size() ? bytes_.data() : nullptr; }
        void *Realloc(void * /*memory*/, size_t /*old_size*/, size_t size) { return Malloc(size); }
        static void Free(void * /*memory*/) {}

      private:
        alignas(std::max_align_t) std::array<std::byte, 512> bytes_;
    };
    // NOLINTEND(readability-identifier-naming)

    static constexpr size_t deepest_level = 16;

    Stream stream_;
    Memory memory_;
    rapidjson::PrettyWriter<Stream, rapidjson::UTF8<>, rapidjson::UTF8<>, Memory> writer_;
};

} // namespace nginx_module
