// Scratch memory that a thread keeps between calls, because new pages cost more time than the
// encoding that fills them.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tacit {

// A thread has one buffer for each use. A use must not be nested in itself.
enum class Use { rows, panels, sums, image, planes, kernel, residues, count };

// The thread's buffer for a use, at least `bytes` long, aligned to 64; the contents are undefined.
class Scratch {
 public:
  Scratch(Use use, std::size_t bytes) : slot_(slots_[static_cast<int>(use)]) {
    if (slot_.size >= bytes) return;
    slot_.release();
    const std::size_t page = bytes < kHugePage ? 4096 : kHugePage;
    bytes = (bytes + page - 1) / page * page;
    slot_.data = std::aligned_alloc(page, bytes);
    if (!slot_.data) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)  // 18 planes at a time are more pages than a processor knows by heart
    if (page == kHugePage) madvise(slot_.data, bytes, MADV_HUGEPAGE);
#endif
    slot_.size = bytes;
  }
  ~Scratch() {
    if (slot_.size > kept_bytes) slot_.release();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Larger buffers are freed after use, in all threads of the process.
  static inline std::atomic<std::size_t> kept_bytes{64u << 20};

  template <class T = std::int8_t>
  T* data() const {
    return static_cast<T*>(slot_.data);
  }

 private:
  static constexpr std::size_t kHugePage = 2u << 20;
  struct Slot {
    void* data = nullptr;
    std::size_t size = 0;
    void release() {
      std::free(data);
      data = nullptr;
      size = 0;
    }
    ~Slot() { release(); }
  };
  static thread_local Slot slots_[static_cast<int>(Use::count)];
  Slot& slot_;
};

}  // namespace tacit
