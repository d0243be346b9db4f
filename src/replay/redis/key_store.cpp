#include "replay/redis/key_store.hpp"

#include <algorithm>

namespace replay {

void NumberList::trim(size_t first, size_t end) {
    numbers_.resize(first_ + end);
    first_ += first;
    if (first_ * 2 > numbers_.size()) { // each number is moved once at most, on average
        numbers_.erase(numbers_.begin(), numbers_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
    }
}

size_t NumberList::remove_last(int64_t number, size_t most) {
    size_t removed = 0;
    for (size_t at = numbers_.size(); at > first_ && removed < most; --at) {
        if (numbers_[at - 1] == number) {
            numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(at - 1));
            ++removed;
        }
    }
    return removed;
}

bool SortedSet::set(std::string_view member, double score) {
    const auto found = scores_.find(member);
    if (found == scores_.end()) {
        scores_.emplace(member, score);
        order_.emplace(score, member);
        return true;
    }
    order_.erase({found->second, found->first});
    order_.emplace(score, member);
    found->second = score;
    return false;
}

bool SortedSet::remove(std::string_view member) {
    const auto found = scores_.find(member);
    if (found == scores_.end()) {
        return false;
    }
    order_.erase({found->second, found->first});
    scores_.erase(found);
    return true;
}

const double *SortedSet::score(std::string_view member) const {
    const auto found = scores_.find(member);
    return found != scores_.end() ? &found->second : nullptr;
}

bool Hash::set(std::string_view name, std::string_view value) {
    const auto field = std::ranges::find(fields_, name, &Field::first);
    if (field != fields_.end()) {
        field->second = value;
        return false;
    }
    fields_.emplace_back(name, value);
    return true;
}

bool Hash::remove(std::string_view name) {
    return std::erase_if(fields_, [&](const Field &field) { return field.first == name; }) > 0;
}

const std::string *Hash::find(std::string_view name) const {
    const auto field = std::ranges::find(fields_, name, &Field::first);
    return field != fields_.end() ? &field->second : nullptr;
}

/// Tickets and the key that was looked up last point into the map, so they are made anew.
KeyStore &KeyStore::operator=(const KeyStore &other) {
    if (this == &other) {
        return *this;
    }
    now_us_ = other.now_us_;
    refusal_ = other.refusal_;
    keys_ = other.keys_;
    last_ = nullptr;
    tickets_ = {};
    for (Keys::value_type &key : keys_) {
        key.second.has_ticket = false;
        add_ticket(key);
    }
    return *this;
}

std::vector<std::string> KeyStore::names() const {
    std::vector<std::string> names;
    for (const auto &[name, entry] : keys_) {
        if (!std::holds_alternative<std::monostate>(entry.value) && !has_expired(entry)) {
            names.push_back(name);
        }
    }
    std::ranges::sort(names);
    return names;
}

void KeyStore::move_to(KeyStore &other, std::string_view key) {
    const std::string name(key);
    Entry &entry = *find_entry(name);
    Keys::value_type &moved = *other.keys_.try_emplace(name).first;
    moved.second.value = std::move(entry.value);
    moved.second.expires_ms = entry.expires_ms;
    if (entry.expires_ms != never) {
        moved.second.expires_ms += other.now_us_ / 1000 - now_us_ / 1000;
    }
    other.add_ticket(moved);
    entry.value.emplace<std::string>();
    remove(name);
}

void KeyStore::set_now(int64_t now_us) {
    now_us_ = now_us;
    while (!tickets_.empty() && now_us_ / 1000 > tickets_.top().first) {
        const auto found = keys_.find(*tickets_.top().second);
        tickets_.pop();
        Entry &entry = found->second;
        entry.has_ticket = false;
        const bool is_gone = std::holds_alternative<std::monostate>(entry.value);
        if (is_gone || has_expired(entry)) {
            last_ = nullptr;
            keys_.erase(found);
        } else if (entry.expires_ms != never) {
            entry.has_ticket = true;
            tickets_.emplace(entry.expires_ms, &found->first);
        }
    }
}

/// A removed key that has a ticket stays in the map, without a value, until the ticket is due.
KeyStore::Entry *KeyStore::find_entry(std::string_view key) {
    Keys::value_type *found = look_up(key);
    if (found == nullptr || std::holds_alternative<std::monostate>(found->second.value)) {
        return nullptr;
    }
    return has_expired(found->second) ? nullptr : &found->second;
}

/// The commands of a script are about few keys, so the last one is tried first.
KeyStore::Keys::value_type *KeyStore::look_up(std::string_view key) {
    if (last_ == nullptr || last_->first != key) {
        const auto found = keys_.find(key);
        last_ = found != keys_.end() ? &*found : nullptr;
    }
    return last_;
}

KeyStore::Value *KeyStore::find(std::string_view key) {
    Entry *entry = find_entry(key);
    return entry != nullptr ? &entry->value : nullptr;
}

KeyStore::Value &KeyStore::make(std::string_view key) {
    if (Entry *entry = find_entry(key)) {
        return entry->value;
    }
    Entry &entry = keys_.try_emplace(std::string(key)).first->second;
    entry.value = std::monostate{};
    entry.expires_ms = never;
    return entry.value;
}

bool KeyStore::remove(std::string_view key) {
    const auto found = keys_.find(key);
    if (found == keys_.end()) {
        return false;
    }
    Entry &entry = found->second;
    const bool was_there =
        !std::holds_alternative<std::monostate>(entry.value) && !has_expired(entry);
    if (entry.has_ticket) {
        entry.value = std::monostate{};
    } else {
        last_ = nullptr;
        keys_.erase(found);
    }
    return was_there;
}

void KeyStore::expire_in(std::string_view key, int64_t milliseconds) {
    Keys::value_type *found = look_up(key);
    found->second.expires_ms = now_us_ / 1000 + milliseconds;
    add_ticket(*found);
}

/// A key that expires has a ticket.
void KeyStore::add_ticket(Keys::value_type &key) {
    Entry &entry = key.second;
    if (entry.expires_ms != never && !entry.has_ticket) {
        entry.has_ticket = true;
        tickets_.emplace(entry.expires_ms, &key.first);
    }
}

void KeyStore::persist(std::string_view key) {
    if (Entry *entry = find_entry(key)) {
        entry->expires_ms = never;
    }
}

int64_t KeyStore::time_to_live_ms(std::string_view key) {
    const Entry *entry = find_entry(key);
    if (entry == nullptr) {
        return -2;
    }
    return entry->expires_ms == never ? -1 : entry->expires_ms - now_us_ / 1000;
}

} // namespace replay
