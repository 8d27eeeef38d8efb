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

// Headers, in which the number of the operation and the digest differ from one time to the next,
// and the bytes of tensors, which must outlive this.
class Message {
 public:
  using Part = std::pair<std::uintptr_t, std::size_t>;  // an address, and how many bytes

  // `headers`: where each of them begins in the head; `number_at` and `digest_at`: where the two
  // begin in each.
  Message(const std::string& head, std::vector<Part> parts, std::vector<std::size_t> headers,
          std::size_t number_at, std::size_t digest_at)
      : headers_(std::move(headers)),
        number_at_(number_at),
        digest_at_(digest_at),
        parts_(std::move(parts)),
        head_(head),
        size_(head.size()) {
    for (const std::size_t start : headers_) {
      if (number_at + kNumberBytes > digest_at || start + digest_at + kDigestBytes > head.size()) {
        throw std::invalid_argument("a header without the places of its number and digest");
      }
    }
    for (const auto& [address, count] : parts_) size_ += count;
  }

  std::size_t size() const { return size_; }

  // Sets what the head is this time; integers are little-endian.
  void set_head(std::uint64_t number, const std::string& digest) {
    if (digest.size() != kDigestBytes) throw std::invalid_argument("a digest of another size");
    for (const std::size_t start : headers_) {
      for (std::size_t i = 0; i < kNumberBytes; ++i) {
        head_[start + number_at_ + i] = static_cast<char>(number >> 8 * i);
      }
      std::memcpy(head_.data() + start + digest_at_, digest.data(), kDigestBytes);
    }
  }

  // Copies the head and what the tensors hold now to `into`, which has space for `size` bytes.
  void gather(char* into) const {
    std::memcpy(into, head_.data(), head_.size());
    char* at = into + head_.size();
    for (const auto& [address, count] : parts_) {
      if (count) std::memcpy(at, reinterpret_cast<const char*>(address), count);
      at += count;
    }
  }

  // Copies to the tensors what follows the head in these bytes, as many as the message has, if it
  // is byte for byte the same; returns whether it is.
  bool scatter(const char* data) const {
    if (std::memcmp(data, head_.data(), head_.size())) return false;
    data += head_.size();
    for (const auto& [address, count] : parts_) {
      if (count) std::memcpy(reinterpret_cast<char*>(address), data, count);
      data += count;
    }
    return true;
  }

 private:
  static constexpr std::size_t kNumberBytes = 8;
  const std::vector<std::size_t> headers_;
  const std::size_t number_at_, digest_at_;
  const std::vector<Part> parts_;
  std::string head_;
  std::size_t size_;
};

}  // namespace tacit
