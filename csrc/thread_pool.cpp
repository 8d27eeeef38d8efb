// One pool of worker threads for the whole process. Jobs of several callers run at the same time.
#include <pthread.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "native.h"

namespace tacit {
namespace {

// One parallel_for: chunks are handed out by `next`, and the caller waits for `done` to reach all.
struct Job {
  std::size_t count, grain, chunks;
  const std::function<void(std::size_t, std::size_t)>* body;
  std::atomic<std::size_t> next{0}, done{0};
  std::atomic<int> helpers_left;  // how many workers may still join
  std::mutex mutex;
  std::exception_ptr failure;  // the first one; later chunks are skipped

  void work() {
    for (std::size_t chunk; (chunk = next.fetch_add(1)) < chunks;) {
      try {
        if (!failed()) (*body)(chunk* grain, std::min(count, (chunk + 1) * grain));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
      if (done.fetch_add(1) + 1 == chunks) done.notify_all();
    }
  }
  bool failed() {
    std::lock_guard lock(mutex);
    return failure != nullptr;
  }
  void wait() {
    for (std::size_t seen; (seen = done.load()) < chunks;) done.wait(seen);
    if (failure) std::rethrow_exception(failure);
  }
};

class ThreadPool {
 public:
  // Runs a job on the caller's thread and up to `helpers` workers; returns when it is done.
  void run(const std::shared_ptr<Job>& job, int helpers) {
    {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(size_) < helpers) {
        std::thread([this] { serve(); }).detach();
        ++size_;
      }
      jobs_.push_back(job);
    }
    helpers == 1 ? wake_.notify_one() : wake_.notify_all();
    job->work();
    {  // no chunk is left: workers that come later need not join
      std::lock_guard lock(mutex_);
      std::erase(jobs_, job);
    }
    job->wait();
  }

 private:
  void serve() {
    for (;;) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !jobs_.empty(); });
        job = jobs_.front();
        if (job->helpers_left.fetch_sub(1) <= 1) jobs_.pop_front();
      }
      job->work();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::size_t size_ = 0;
};

// Never freed, because its threads sleep in it until the process ends. A forked child has none of
// these threads, so it starts a pool of its own.
ThreadPool* pool = [] {
  pthread_atfork(nullptr, nullptr, [] { pool = new ThreadPool; });
  return new ThreadPool;
}();

// The cores that this process may run on; the C++ library counts all that the machine has.
int available_cores() {
#ifdef __linux__
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::atomic<int> threads{available_cores()};

}  // namespace

int num_threads() { return threads; }

void set_num_threads(int count) { threads = std::max(1, count); }

void parallel_for(std::size_t count, std::size_t grain,
                  const std::function<void(std::size_t, std::size_t)>& body) {
  if (count == 0) return;
  const std::size_t chunks = (count + grain - 1) / grain;
  const int helpers = static_cast<int>(std::min<std::size_t>(chunks, threads.load())) - 1;
  if (helpers <= 0) {
    body(0, count);
    return;
  }
  auto job = std::make_shared<Job>();
  job->count = count, job->grain = grain, job->chunks = chunks, job->body = &body;
  job->helpers_left = helpers;
  pool->run(job, helpers);
}

}  // namespace tacit
