// What carries bytes to or from another party, and what its calls return.
#pragma once

#include <cstddef>

namespace tacit {

// What a call returns in place of a count. A peer that ends TLS in good order is a count of 0.
// kTaken: a message has been received. kForeign: other bytes came than were expected.
enum Status : long {
  kWantRead = -1,
  kWantWrite = -2,
  kCut = -3,
  kSystem = -4,
  kFailed = -5,
  kTaken = -6,
  kForeign = -7
};

// One connection, for one thread at a time, without the interpreter's lock. A call passes what it
// can within so many milliseconds, and returns how many bytes that are, or a Status.
class Carrier {
 public:
  virtual long read_for(char* into, std::size_t size, int milliseconds) = 0;

  // Unless they are the last ones for now, bytes may stay here until the next call.
  virtual long write_for(char* from, std::size_t size, int milliseconds, bool are_last) = 0;

 protected:
  ~Carrier() = default;
};

}  // namespace tacit
