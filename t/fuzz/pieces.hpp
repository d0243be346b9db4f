// A stream in the pieces in which a network brings it.
#pragma once

#include "input.hpp"

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace fuzz {

class Pieces {
  public:
    /// Each byte of `sizes` is the size of a piece, less one; over and over. Of none: one piece.
    Pieces(std::string_view bytes, std::string_view sizes) : left_(bytes), sizes_(sizes) {}

    bool empty() const { return left_.empty(); }

    std::string_view take() {
        const std::string_view piece = left_.substr(0, next_size());
        left_.remove_prefix(piece.size());
        return piece;
    }

  private:
    size_t next_size() {
        return sizes_.empty() ? left_.size()
                              : 1 + static_cast<unsigned char>(sizes_[taken_++ % sizes_.size()]);
    }

    std::string_view left_;
    std::string_view sizes_;
    size_t taken_ = 0;
};

inline constexpr std::string_view one_piece;
inline constexpr std::string_view single_bytes("\0", 1);

/// `seen` tells, as text, all that could be seen from outside where bytes come in Pieces of the
/// sizes that it is called with.
template <typename Seen>
void require_same_in_pieces(std::initializer_list<std::string_view> all_sizes, const Seen &seen) {
    const std::string whole = seen(one_piece);
    for (const std::string_view sizes : all_sizes) {
        const std::string pieces = seen(sizes.empty() ? single_bytes : sizes);
        if (pieces != whole) {
            std::fprintf(stderr, "--- as sent\n%s\n--- in pieces\n%s\n", whole.c_str(),
                         pieces.c_str());
        }
        require(pieces == whole, "the same is seen in whatever pieces bytes come");
    }
}

} // namespace fuzz
