// Threads that pass the slices of a part at the same time, each on a connection of its own.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "carrier.h"

namespace tacit {

struct Slice {
  using Bytes = std::pair<char*, std::size_t>;

  Carrier* carrier = nullptr;
  std::string head;          // is sent before the bytes, or expected there
  std::vector<Bytes> bytes;  // memory that stays until the slice has passed or `stop` has returned
};

class SliceThreads {
 public:
  enum Outcome : long { kNotYet = 0, kPassed = 1 };  // or a Status

  // `signal`: the file to which a byte is written when a part has passed or failed; -1: none.
  SliceThreads(std::size_t count, bool sends, int signal) : sends_(sends), signal_(signal) {
    for (std::size_t i = 0; i < count; ++i) workers_.push_back(std::make_unique<Worker>());
    for (const auto& one : workers_) {  // which stay where they are from now on
      one->thread = std::thread([this, own = one.get()] { serve(*own); });
    }
  }
  SliceThreads(const SliceThreads&) = delete;
  ~SliceThreads() { stop(); }

  // Begins to pass a part, unless all is over. The one before has passed. With `copies`, what is
  // sent has been copied when it returns, each slice by its own thread, which has it in its cache.
  void begin(std::vector<Slice> slices, bool copies) {
    if (is_stopped_.load()) return;
    if (running_.load() || slices.size() > workers_.size()) {
      throw std::logic_error("a part has too many slices, or another one is passing");
    }
    running_.store(slices.size());
    uncopied_.store(copies ? slices.size() : 0);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      workers_[i]->slice = std::move(slices[i]);
      workers_[i]->copies = copies;
      wake(*workers_[i]);
    }
    for (std::size_t left; (left = uncopied_.load());) uncopied_.wait(left);
  }

  // Returns an Outcome after so long at most, or why the first slice failed that did.
  long wait(int milliseconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                      [this] { return failure_ || !running_.load(); });
    return failure_ ? failure_ : running_.load() ? kNotYet : kPassed;
  }

  // Which slice failed first.
  std::size_t failed() const { return failed_; }

  // How many bytes each thread has passed.
  std::vector<std::uint64_t> moved() const {
    std::vector<std::uint64_t> counts;
    for (const auto& one : workers_) counts.push_back(one->moved.load());
    return counts;
  }

  // Ends the threads, even in the middle of a slice. Their connections are cut before.
  void stop() {
    is_over_.store(true);
    is_stopped_.store(true);
    for (const auto& one : workers_) {
      if (!one->thread.joinable()) continue;
      wake(*one);
      one->thread.join();
    }
  }

 private:
  struct Worker {
    std::atomic<std::uint32_t> turn{0};  // counts the slices that it was given
    std::atomic<std::uint64_t> moved{0};
    Slice slice;
    bool copies = false;
    std::vector<char> copied;  // the bytes of the slice, or of an earlier one
    std::thread thread;
  };

  static constexpr int kHold = 20;  // milliseconds between two looks at `is_over_`

  static void wake(Worker& one) {
    one.turn.fetch_add(1);
    one.turn.notify_one();
  }

  void serve(Worker& own) {
    for (std::uint32_t seen = 0;; ++seen) {
      own.turn.wait(seen);
      if (is_stopped_.load()) return;
      if (own.copies) copy(own);
      finish(own, sends_ ? send(own) : receive(own));
    }
  }

  // Puts the bytes of a slice in memory of this thread.
  void copy(Worker& own) {
    std::size_t size = 0;
    for (const auto& part : own.slice.bytes) size += part.second;
    if (own.copied.size() < size) own.copied.resize(size);
    char* at = own.copied.data();
    for (const auto& [data, count] : own.slice.bytes) {
      std::memcpy(at, data, count);
      at += count;
    }
    own.slice.bytes = {{own.copied.data(), size}};
    if (uncopied_.fetch_sub(1) == 1) uncopied_.notify_all();
  }

  // Tells whoever waits, if that was the last slice or one that failed.
  void finish(const Worker& own, long outcome) {
    const std::lock_guard lock(mutex_);
    if (outcome < 0 && !failure_) {
      failure_ = outcome;
      while (workers_[failed_].get() != &own) ++failed_;
      is_over_.store(true);
    }
    if (running_.fetch_sub(1) > 1 && outcome >= 0) return;
    changed_.notify_all();
    if (signal_ >= 0 && !is_stopped_.load() && ::write(signal_, ".", 1) < 0) return;
  }

  long send(Worker& own) {
    const Slice& one = own.slice;
    std::string head = one.head;
    long outcome = pass(own, head.data(), head.size(), [&](char* from, std::size_t left) {
      return one.carrier->write_for(from, left, kHold, false);
    });
    for (const auto& [data, size] : one.bytes) {
      const bool are_last = data == one.bytes.back().first;
      if (outcome != kPassed) break;
      outcome = pass(own, data, size, [&](char* from, std::size_t left) {
        return one.carrier->write_for(from, left, kHold, are_last);
      });
    }
    return outcome;
  }

  long receive(Worker& own) {
    const Slice& one = own.slice;
    const auto read = [&](char* into, std::size_t left) {
      return one.carrier->read_for(into, left, kHold);
    };
    std::string head(one.head.size(), '\0');
    long outcome = pass(own, head.data(), head.size(), read);
    if (outcome == kPassed && head != one.head) return kForeign;
    for (const auto& [data, size] : one.bytes) {
      if (outcome == kPassed) outcome = pass(own, data, size, read);
    }
    return outcome;
  }

  // Returns kPassed when all bytes have passed, kNotYet if it was stopped before, or a Status.
  template <class Call>
  long pass(Worker& own, char* data, std::size_t left, const Call& call) {
    while (left > 0 && !is_over_.load()) {
      const long count = call(data, left);
      if (count == kWantRead || count == kWantWrite) continue;
      if (count <= 0) return count ? count : static_cast<long>(kCut);
      data += count;
      left -= static_cast<std::size_t>(count);
      own.moved.fetch_add(static_cast<std::uint64_t>(count));
    }
    return left > 0 ? kNotYet : kPassed;
  }

  const bool sends_;
  const int signal_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<std::size_t> running_{0}, uncopied_{0};
  std::atomic<bool> is_over_{false}, is_stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  long failure_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace tacit
