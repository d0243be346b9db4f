#include "redis_client/wire/hash_slot.hpp"

#include <array>

namespace redis_client {

namespace {

/// CRC-16/XMODEM, of each byte.
constexpr std::array<uint16_t, 256> make_crc_table() {
    constexpr uint32_t polynomial = 0x1021;
    std::array<uint16_t, 256> table{};
    for (uint32_t byte = 0; byte < table.size(); ++byte) {
        uint32_t crc = byte << 8;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 0x8000) != 0 ? crc << 1 ^ polynomial : crc << 1;
        }
        table[byte] = static_cast<uint16_t>(crc);
    }
    return table;
}

constexpr std::array<uint16_t, 256> crc_table = make_crc_table();

std::string_view hash_tag(std::string_view redis_key) {
    const size_t begin = redis_key.find('{');
    if (begin == std::string_view::npos) {
        return redis_key;
    }
    const size_t end = redis_key.find('}', begin);
    const bool is_tag = end != std::string_view::npos && end > begin + 1;
    return is_tag ? redis_key.substr(begin + 1, end - begin - 1) : redis_key;
}

} // namespace

uint16_t hash_slot(std::string_view redis_key) {
    uint32_t crc = 0;
    for (const char c : hash_tag(redis_key)) {
        crc = (crc << 8 & 0xffff) ^ crc_table[(crc >> 8 ^ static_cast<unsigned char>(c)) & 0xff];
    }
    return static_cast<uint16_t>(crc % hash_slots);
}

} // namespace redis_client
