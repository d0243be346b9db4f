// All that happened in a simulation: two runs of one seed must have the same journal.
#pragma once

#include "simulation/timeline.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace simulation {

class Journal {
  public:
    /// Prints each line, too, if it is about the subject, or all lines if that is empty.
    void print_lines_about(std::string_view subject) {
        prints_ = true;
        subject_ = subject;
    }

    void write(Time time, std::string_view line) {
        const std::string whole = std::to_string(time.count()) + " " + std::string(line) + "\n";
        EVP_DigestUpdate(digest_.get(), whole.data(), whole.size());
        ++lines_;
        if (prints_ && whole.find(subject_) != std::string::npos) {
            std::fputs(whole.c_str(), stdout);
        }
    }

    uint64_t lines() const { return lines_; }
    /// Ends the journal. Returns its SHA-256 in hex.
    std::string end() {
        std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
        unsigned size = 0;
        EVP_DigestFinal_ex(digest_.get(), bytes.data(), &size);
        std::string hex;
        for (unsigned i = 0; i < size; ++i) {
            hex += "0123456789abcdef"[bytes[i] >> 4];
            hex += "0123456789abcdef"[bytes[i] & 15];
        }
        return hex;
    }

  private:
    struct Free {
        void operator()(EVP_MD_CTX *digest) const { EVP_MD_CTX_free(digest); }
    };
    static EVP_MD_CTX *begin() {
        EVP_MD_CTX *digest = EVP_MD_CTX_new();
        EVP_DigestInit_ex(digest, EVP_sha256(), nullptr);
        return digest;
    }

    std::unique_ptr<EVP_MD_CTX, Free> digest_{begin()};
    uint64_t lines_ = 0;
    bool prints_ = false;
    std::string subject_;
};

} // namespace simulation
