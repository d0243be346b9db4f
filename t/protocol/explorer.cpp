#include "explorer.hpp"

#include "protocol.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace protocol {

namespace {

/// All states seen so far, in the order in which they were found. They are kept whole, so that no
/// two of them are taken for one.
class Seen {
  public:
    static constexpr uint32_t none = UINT32_MAX;

    /// Adds a state, found from the one of that index, if it is new.
    void add(const World &world, uint32_t found_from) {
        if (worlds_.size() * 2 >= table_.size()) {
            grow();
        }
        uint32_t &index = place_of(world);
        if (index == none) {
            index = static_cast<uint32_t>(worlds_.size());
            worlds_.push_back(world);
            found_from_.push_back(found_from);
        }
    }

    size_t size() const { return worlds_.size(); }
    const World &operator[](size_t index) const { return worlds_[index]; }

    /// The indexes of the states on the way from the first one to this one.
    std::vector<uint32_t> way_to(uint32_t index) const {
        std::vector<uint32_t> way;
        for (; index != none; index = found_from_[index]) {
            way.push_back(index);
        }
        std::ranges::reverse(way);
        return way;
    }

  private:
    static size_t hash_of(const World &world) {
        std::array<uint64_t, (sizeof(World) + 7) / 8> words{};
        std::memcpy(words.data(), &world, sizeof(World));
        uint64_t hash = 0;
        for (const uint64_t word : words) {
            hash = (std::rotl(hash, 23) ^ word) * 0x9e3779b97f4a7c15;
        }
        return hash ^ hash >> 29;
    }

    /// Where in the table the world's index is, or is to be.
    uint32_t &place_of(const World &world) {
        const size_t mask = table_.size() - 1;
        size_t place = hash_of(world) & mask;
        while (table_[place] != none && !(worlds_[table_[place]] == world)) {
            place = (place + 1) & mask;
        }
        return table_[place];
    }

    void grow() {
        table_.assign(std::max<size_t>(table_.size() * 2, 1024), none);
        for (uint32_t i = 0; i < worlds_.size(); ++i) {
            place_of(worlds_[i]) = i;
        }
    }

    std::vector<World> worlds_;
    std::vector<uint32_t> found_from_;
    std::vector<uint32_t> table_; // of indexes
};

/// Tells a run: which steps lead from each state to the next one, and at what time.
class Narrator {
  public:
    explicit Narrator(const Protocol &protocol) : protocol_(protocol) {}

    void tell(const Step &step) {
        if (step.kind == Step::Kind::pass) {
            ++now_;
        } else {
            text_ += std::to_string(now_) + "  " + to_string(step) + "\n";
        }
    }

    std::string tell(const Seen &seen, const std::vector<uint32_t> &way, const Step &last) {
        std::vector<Successor> successors;
        for (size_t i = 0; i + 1 < way.size(); ++i) {
            successors.clear();
            protocol_.add_successors(seen[way[i]], successors);
            tell(std::ranges::find(successors, seen[way[i + 1]], &Successor::world)->step);
        }
        tell(last);
        return text_;
    }

  private:
    const Protocol &protocol_;
    int now_ = 0;
    std::string text_;
};

} // namespace

Exploration explore(const Setting &setting) {
    const Protocol protocol(setting);
    Exploration result;
    Seen seen;
    std::vector<Successor> successors;
    World start{};
    start.quotas = 1;
    seen.add(start, Seen::none);
    for (uint32_t index = 0; index < seen.size(); ++index) {
        successors.clear();
        protocol.add_successors(seen[index], successors);
        for (const Successor &successor : successors) {
            ++result.steps[static_cast<size_t>(successor.step.kind)];
            if (!successor.keeps_promise) {
                if (!setting.tells_hosts_apart) {
                    Setting readable = setting;
                    readable.tells_hosts_apart = true;
                    return explore(readable);
                }
                result.counterexample =
                    Narrator(protocol).tell(seen, seen.way_to(index), successor.step);
                result.states = seen.size();
                return result;
            }
            seen.add(successor.world, index);
        }
    }
    result.states = seen.size();
    return result;
}

} // namespace protocol
