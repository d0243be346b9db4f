// Writes JSON to any output.
#pragma once

#include "rate_limit/text/text_writer.hpp"

#include <rapidjson/prettywriter.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace rate_limit {

/// Is written as null.
struct Null {};

/// Text of any bytes. One that is not printable ASCII becomes the escape of the character of that
/// number, so that the JSON is valid whatever the text is.
struct AnyText {
    std::string_view bytes;
};

enum class JsonLayout : uint8_t { indented, one_line };

/// The output has put(), for one byte, and finish(), which returns what the writer's finish() does.
/// It deals with a lack of memory: the writer itself takes none.
template <typename Output>
class JsonWriter {
  public:
    template <typename... Arguments>
    explicit JsonWriter(JsonLayout layout, Arguments &&...of_output)
        : stream_(layout, std::forward<Arguments>(of_output)...),
          writer_(stream_, &memory_, deepest_level) {
        writer_.SetIndent(' ', layout == JsonLayout::indented ? 2 : 0);
    }

    void begin_object() { writer_.StartObject(); }
    void end_object() { writer_.EndObject(); }
    void begin_array() { writer_.StartArray(); }
    void end_array() { writer_.EndArray(); }
    void begin_object(std::string_view its_name) {
        name(its_name);
        begin_object();
    }
    void begin_array(std::string_view its_name) {
        name(its_name);
        begin_array();
    }
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
    /// The text must be valid UTF-8: see Readable.
    void value(std::string_view text) {
        writer_.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
    }
    void value(AnyText text) {
        constexpr std::string_view digits = "0123456789abcdef";
        writer_.RawValue("", 0, rapidjson::kStringType); // what stands before a value
        stream_.Put('"');
        for (const char c : text.bytes) {
            const auto byte = static_cast<unsigned char>(c);
            if (c >= ' ' && c <= '~') {
                if (c == '"' || c == '\\') {
                    stream_.Put('\\');
                }
                stream_.Put(c);
            } else {
                for (const char of_escape :
                     {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]}) {
                    stream_.Put(of_escape);
                }
            }
        }
        stream_.Put('"');
    }
    void value(Seconds seconds) {
        std::array<char, 32> digits;
        TextWriter text(digits);
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

    /// Ends the text, which is complete, with a line feed.
    auto finish() { return stream_.finish(); }

  private:
    // These two have the members that RapidJSON asks for, under its names.
    // NOLINTBEGIN(readability-identifier-naming)

    /// RapidJSON ends lines behind commas and brackets, and nowhere in a string.
    class Stream {
      public:
        using Ch = char;
        template <typename... Arguments>
        explicit Stream(JsonLayout layout, Arguments &&...of_output)
            : output_(std::forward<Arguments>(of_output)...), layout_(layout) {}
        void Put(char c) {
            if (c == '\n' && layout_ == JsonLayout::one_line) {
                if (last_ == ',') {
                    output_.put(' ');
                }
            } else {
                output_.put(c);
            }
            last_ = c;
        }
        void Flush() {}
        auto finish() {
            output_.put('\n');
            return output_.finish();
        }

      private:
        Output output_;
        JsonLayout layout_;
        char last_ = '\0';
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

} // namespace rate_limit
