// A message that passes many times, from or to the same memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tacit {

constexpr std::size_t kDigestBytes = 16;

// A head, in which the number of the operation and the digest differ from one time to the next, and
// the bytes of tensors, which must outlive this.
class Message {
 public:
  using Part = std::pair<std::uintptr_t, std::size_t>;  // an address, and how many bytes

  // `number_at` and `digest_at`: where the two begin in the head.
  Message(const std::string& head, std::vector<Part> parts, std::size_t number_at,
          std::size_t digest_at)
      : head_bytes_(head.size()),
        number_at_(number_at),
        digest_at_(digest_at),
        parts_(std::move(parts)),
        bytes_(head.begin(), head.end()) {
    if (number_at + kNumberBytes > digest_at || digest_at + kDigestBytes > head.size()) {
      throw std::invalid_argument("a head without the places of its number and digest");
    }
    std::size_t size = head.size();
    for (const auto& [address, count] : parts_) size += count;
    bytes_.resize(size);
  }

  std::size_t size() const { return bytes_.size(); }
  char* bytes() { return bytes_.data(); }

  // Sets what the head is this time; integers are little-endian.
  void set_head(std::uint64_t number, const std::string& digest) {
    if (digest.size() != kDigestBytes) throw std::invalid_argument("a digest of another size");
    for (std::size_t i = 0; i < kNumberBytes; ++i) {
      bytes_[number_at_ + i] = static_cast<char>(number >> 8 * i);
    }
    std::memcpy(bytes_.data() + digest_at_, digest.data(), kDigestBytes);
  }

  // Copies the tensors behind the head.
  void gather() {
    char* at = bytes_.data() + head_bytes_;
    for (const auto& [address, count] : parts_) {
      if (count) std::memcpy(at, reinterpret_cast<const char*>(address), count);
      at += count;
    }
  }

  // Copies to the tensors what follows the head in these bytes, as many as the message has, if it
  // is byte for byte the same; returns whether it is.
  bool scatter(const char* data) const {
    if (std::memcmp(data, bytes_.data(), head_bytes_)) return false;
    data += head_bytes_;
    for (const auto& [address, count] : parts_) {
      if (count) std::memcpy(reinterpret_cast<char*>(address), data, count);
      data += count;
    }
    return true;
  }

 private:
  static constexpr std::size_t kNumberBytes = 8;
  const std::size_t head_bytes_, number_at_, digest_at_;
  const std::vector<Part> parts_;
  std::vector<char> bytes_;
};

}  // namespace tacit
