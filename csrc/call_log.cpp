// A log of calls: their digest, and the last of them with the line of the user's program.
//
// The digest is 16 zeros at first. Each call replaces the digest d by the BLAKE2b hash, 16 bytes
// long, of d, the call's name, a zero, and its arguments as bytes (call_bytes.h). More than kLong
// bytes of arguments are replaced by # and their hash, 64 bytes long. Names contain no zero, so
// what is hashed tells one call from another. `tacit.ring.reference.call_log` is the same in
// Python.
#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "blake2b.h"
#include "call_bytes.h"

namespace tacit {
namespace {

constexpr std::size_t kDigest = 16;
constexpr std::size_t kLong = 512;

// A place in the code, which has no references to values. Its line is looked up when it is needed.
struct Place {
  nb::object code;  // invalid: no place
  int instruction = -1;
};

// Finds frames of the user's program. `files`: whether a file is the user's, by name. `is_users`
// decides about frames of other files, and adds them to `files` if it can.
struct Frames {
  nb::object files, is_users;

  // The innermost line of the user's program that is running.
  Place running() const {
    PyFrameObject* first = PyThreadState_GetFrame(PyThreadState_Get());
    for (nb::object frame = owned(first); frame.is_valid();
         frame = owned(PyFrame_GetBack(frame_of(frame)))) {
      nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame_of(frame))));
      if (is_of_user(frame, code)) return {std::move(code), PyFrame_GetLasti(frame_of(frame))};
    }
    return {};
  }

 private:
  static nb::object owned(PyFrameObject* frame) {
    return nb::steal(reinterpret_cast<PyObject*>(frame));
  }
  static PyFrameObject* frame_of(const nb::object& frame) {
    return reinterpret_cast<PyFrameObject*>(frame.ptr());
  }

  bool is_of_user(const nb::object& frame, const nb::object& code) const {
    PyObject* file = reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename;
    PyObject* known = PyDict_GetItemWithError(files.ptr(), file);
    if (known != nullptr) return known == Py_True;
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return is_users(frame).is(nb::handle(Py_True));
  }
};

class CallLog {
 public:
  CallLog(nb::set shaped, nb::callable described, nb::dict files, nb::callable is_users,
          std::size_t kept)
      : classes_{std::move(shaped), std::move(described)},
        frames_{std::move(files), std::move(is_users)},
        kept_(kept) {
    if (kept == 0) throw std::invalid_argument("a log keeps at least one call");
    entries_.reserve(kept);
  }

  // Adds a call, and returns the digest of all calls so far.
  nb::bytes absorb(nb::str name, nb::handle args, nb::handle kwargs) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
    if (text == nullptr) throw nb::python_error();
    std::string call(kDigest, '\0');
    call.reserve(kLong);
    call.append(text, static_cast<std::size_t>(size)) += '\0';
    const std::size_t begin = call.size();
    CallBytes described(classes_, call);
    described.add(args.ptr());
    described.add(kwargs.ptr());
    if (call.size() - begin > kLong) shorten(call, begin);
    Entry entry{std::move(name), call.substr(begin), frames_.running()};
    std::memcpy(call.data(), digest_, kDigest);
    char made[kDigest];
    Blake2b::hash(call.data(), call.size(), made, kDigest);
    nb::bytes digest(made, kDigest);
    // Nothing fails from here on. Since the digest was read, no Python ran that adds a call.
    std::memcpy(digest_, made, kDigest);
    if (entries_.size() < kept_) {
      entries_.push_back(std::move(entry));
    } else {
      std::swap(entries_[count_ % kept_], entry);
    }
    ++count_;
    return digest;
  }

  // The names and arguments of calls [first, end), which must be kept.
  nb::list entries(std::size_t first, std::size_t end) const {
    nb::list found;
    for (std::size_t i = first; i < end; ++i) {
      const Entry& one = at(i);
      found.append(nb::make_tuple(one.name, nb::bytes(one.data.data(), one.data.size())));
    }
    return found;
  }

  // The code and the line of the user's program that made a call; None if there is none.
  nb::object place(std::size_t index) const {
    const Place& place = at(index).place;
    if (!place.code.is_valid()) return nb::none();
    auto* code = reinterpret_cast<PyCodeObject*>(place.code.ptr());
    return nb::make_tuple(place.code, PyCode_Addr2Line(code, place.instruction));
  }

  // What may refer to the log in turn, for the garbage collector.
  std::array<nb::object*, 4> referents() {
    return {&classes_.shaped, &classes_.described, &frames_.files, &frames_.is_users};
  }

 private:
  struct Entry {
    nb::object name;
    std::string data;
    Place place;
  };

  static void shorten(std::string& call, std::size_t begin) {
    char hash[64];
    Blake2b::hash(call.data() + begin, call.size() - begin, hash, sizeof hash);
    call.resize(begin);
    (call += '#').append(hash, sizeof hash);
  }

  const Entry& at(std::size_t index) const {
    if (index >= count_ || count_ - index > entries_.size()) {
      throw std::out_of_range("a call that is not kept");
    }
    return entries_[index % kept_];
  }

  Classes classes_;
  Frames frames_;
  std::size_t kept_, count_ = 0;
  char digest_[kDigest] = {};
  std::vector<Entry> entries_;  // call i is at i % kept_
};

int visit_referents(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (nb::object* one : nb::inst_ptr<CallLog>(self)->referents()) Py_VISIT(one->ptr());
  return 0;
}

int clear_referents(PyObject* self) {
  for (nb::object* one : nb::inst_ptr<CallLog>(self)->referents()) *one = nb::none();
  return 0;
}

PyType_Slot kCollected[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_referents)},
                            {Py_tp_clear, reinterpret_cast<void*>(clear_referents)},
                            {0, nullptr}};

}  // namespace

void bind_call_log(nb::module_& module) {
  nb::class_<CallLog>(module, "CallLog", nb::type_slots(kCollected))
      .def(nb::init<nb::set, nb::callable, nb::dict, nb::callable, std::size_t>())
      .def("absorb", &CallLog::absorb)
      .def("entries", &CallLog::entries)
      .def("place", &CallLog::place);
}

}  // namespace tacit
