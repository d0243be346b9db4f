// The keys that scripts have written, with their values and expiry, as a Redis keeps them whose
// clock is the log's. Keys are forgotten when they expire, so memory grows with those that are
// alive.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace replay {

/// A list of whole numbers: the scripts keep nothing else in lists.
class NumberList {
  public:
    size_t size() const { return numbers_.size() - first_; }
    int64_t at(size_t index) const { return numbers_[first_ + index]; }
    void push(int64_t number) { numbers_.push_back(number); }
    /// Keeps those from `first` on, before `end`, which is not smaller.
    void trim(size_t first, size_t end);
    /// Removes the number where it stands last, so often at most. Returns how often it did.
    size_t remove_last(int64_t number, size_t most);

  private:
    std::vector<int64_t> numbers_;
    size_t first_ = 0; // those before it were trimmed
};

/// A sorted set, ordered by score and then by member.
class SortedSet {
  public:
    using Element = std::pair<double, std::string>;

    /// Returns true if the member is new.
    bool set(std::string_view member, double score);
    bool remove(std::string_view member);
    /// Returns the score, or null if there is no such member.
    const double *score(std::string_view member) const;
    const std::set<Element> &elements() const { return order_; }

  private:
    std::map<std::string, double, std::less<>> scores_;
    std::set<Element> order_;
};

/// Texts by names, in the order in which the names came. It is for few names.
class Hash {
  public:
    using Field = std::pair<std::string, std::string>;

    /// Returns true if the name is new.
    bool set(std::string_view name, std::string_view value);
    bool remove(std::string_view name);
    /// Returns the value, or null if there is no such name.
    const std::string *find(std::string_view name) const;
    const std::vector<Field> &fields() const { return fields_; }

  private:
    std::vector<Field> fields_;
};

/// Why commands of scripts fail that write.
struct Refusal {
    const char *error = nullptr; // null: none fails
    bool takes_removals = false; // those that need no memory do not fail
};

class KeyStore {
  public:
    using Value = std::variant<std::monostate, std::string, NumberList, SortedSet, Hash>;

    KeyStore() = default;
    KeyStore(const KeyStore &other) { *this = other; }
    KeyStore &operator=(const KeyStore &other);

    /// Sets the clock, in microseconds of Unix time, and forgets what has expired by then.
    void set_now(int64_t now_us);
    int64_t now_us() const { return now_us_; }

    /// Returns the value of a key, or null if there is no such key.
    Value *find(std::string_view key);
    /// Returns the value of a key, which is made without a value if there is none.
    Value &make(std::string_view key);
    bool remove(std::string_view key);

    /// Lets a key expire in so many milliseconds. It must be there.
    void expire_in(std::string_view key, int64_t milliseconds);
    /// Lets a key live until it is removed.
    void persist(std::string_view key);
    /// Returns the milliseconds until the key expires; -1: it never does, -2: there is none.
    int64_t time_to_live_ms(std::string_view key);

    size_t size() const { return keys_.size(); }
    /// Returns all keys, sorted.
    std::vector<std::string> names() const;
    /// Moves a key with its value and the time that it has left to another store, which has a clock
    /// of its own. It must be there.
    void move_to(KeyStore &other, std::string_view key);

    void set_refusal(Refusal refusal) { refusal_ = refusal; }
    const Refusal &refusal() const { return refusal_; }

  private:
    static constexpr int64_t never = INT64_MAX;

    struct Entry {
        Value value;
        int64_t expires_ms = never; // in Unix time
        bool has_ticket = false;
    };
    struct HashOfText {
        using is_transparent = void; // NOLINT(readability-identifier-naming): C++ names it so
        size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>{}(text);
        }
    };
    using Keys = std::unordered_map<std::string, Entry, HashOfText, std::equal_to<>>;
    /// When to look whether a key has expired. There is at most one for each key.
    using Ticket = std::pair<int64_t, const std::string *>;

    Entry *find_entry(std::string_view key);
    void add_ticket(Keys::value_type &key);
    Keys::value_type *look_up(std::string_view key); // null: there is none
    bool has_expired(const Entry &entry) const { return now_us_ / 1000 > entry.expires_ms; }

    int64_t now_us_ = 0;
    Keys keys_;
    Keys::value_type *last_ = nullptr; // that was looked up; null: none, or it is gone
    std::priority_queue<Ticket, std::vector<Ticket>, std::greater<>> tickets_;
    Refusal refusal_;
};

} // namespace replay
