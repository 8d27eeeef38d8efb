// The public part of a call's arguments as bytes, which are the same on every machine.
//
//   None             N
//   True, False      T, F
//   an integer       i and 8 bytes; beyond 64 bits I, a length, and its decimal digits
//   a float          f and 8 bytes
//   a text           s, a length, and UTF-8
//   bytes            b, a length, and they
//   a list or tuple  [, a length, and the elements
//   a dict           {, a length, and keys and values in turn
//   of a class in `shaped`: S, a length, the sizes in its `shape` and its `origin`, 8 bytes each
//   anything else    ? and the tuple that `described` returns for it
//
// Lengths have 4 bytes; numbers are little-endian. No description begins with another one, so those
// of several calls can be joined. `tacit.ring.reference.call_bytes` is the same in Python.
#pragma once

#include <bit>
#include <cstring>
#include <string>

#include "native.h"

namespace tacit {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

// How objects are described whose classes are not Python's own.
struct Classes {
  nb::object shaped;     // a set of classes
  nb::object described;  // a function
  nb::object shape = nb::steal(PyUnicode_InternFromString("shape"));
  nb::object origin = nb::steal(PyUnicode_InternFromString("origin"));
};

class CallBytes {
 public:
  // Descriptions are appended to `bytes`.
  CallBytes(const Classes& classes, std::string& bytes) : classes_(classes), bytes_(bytes) {}

  void add(PyObject* x) {
    if (x == Py_None) {
      bytes_ += 'N';
    } else if (PyBool_Check(x)) {
      bytes_ += x == Py_True ? 'T' : 'F';
    } else if (PyLong_Check(x)) {
      add_integer(x);
    } else if (PyList_Check(x) || PyTuple_Check(x)) {
      add_sequence(x);
    } else if (PyUnicode_Check(x)) {
      add_text('s', x);
    } else if (PyBytes_Check(x)) {
      begin('b', PyBytes_GET_SIZE(x));
      bytes_.append(PyBytes_AS_STRING(x), static_cast<std::size_t>(PyBytes_GET_SIZE(x)));
    } else if (PyDict_Check(x)) {
      add_dict(x);
    } else if (is_shaped(x)) {
      add_shape(x);
    } else if (PyFloat_Check(x)) {  // not earlier: it searches the bases of a class
      bytes_ += 'f';
      append(PyFloat_AsDouble(x));
    } else {
      bytes_ += '?';
      add_sequence(described(x).ptr());
    }
  }

 private:
  static constexpr int kMostDepth = 100;  // of lists in lists: one that contains itself is refused

  class Nested {
   public:
    explicit Nested(int& depth) : depth_(depth) {
      if (depth_ >= kMostDepth) {
        PyErr_SetString(PyExc_RecursionError, "the lists of a call are nested too deeply");
        throw nb::python_error();
      }
      ++depth_;
    }
    ~Nested() { --depth_; }

   private:
    int& depth_;
  };

  template <class T>
  void append(T number) {
    char raw[sizeof number];
    std::memcpy(raw, &number, sizeof number);
    bytes_.append(raw, sizeof number);
  }

  void begin(char kind, Py_ssize_t length) {
    bytes_ += kind;
    append(static_cast<std::uint32_t>(length));
  }

  bool is_shaped(PyObject* x) const {
    const int found =
        PySet_Contains(classes_.shaped.ptr(), reinterpret_cast<PyObject*>(Py_TYPE(x)));
    if (found < 0) throw nb::python_error();
    return found == 1;
  }

  nb::object described(PyObject* x) const {
    nb::object made = classes_.described(nb::handle(x));
    if (!PyTuple_Check(made.ptr())) throw nb::type_error("an argument is described by a tuple");
    return made;
  }

  void add_integer(PyObject* x) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (overflow != 0) {
      add_text('I', nb::steal(PyNumber_ToBase(x, 10)).ptr());
    } else {
      bytes_ += 'i';
      append(static_cast<std::int64_t>(number));
    }
  }

  void add_text(char kind, PyObject* x) {
    Py_ssize_t size = 0;
    const char* text = x == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(x, &size);
    if (text == nullptr) throw nb::python_error();
    begin(kind, size);
    bytes_.append(text, static_cast<std::size_t>(size));
  }

  void add_sequence(PyObject* x) {
    const Nested nested(depth_);
    begin('[', PySequence_Fast_GET_SIZE(x));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
      // Held: Python may run for an element, and can change the list.
      add(nb::borrow(PySequence_Fast_GET_ITEM(x, i)).ptr());
    }
  }

  void add_dict(PyObject* x) {
    const Nested nested(depth_);
    begin('{', PyDict_GET_SIZE(x));
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(x, &at, &key, &value) != 0;) {
      const nb::object held_key = nb::borrow(key), held_value = nb::borrow(value);
      add(key);
      add(value);
    }
  }

  void add_shape(PyObject* x) {
    const nb::object shape = attribute(x, classes_.shape);
    if (!PyTuple_Check(shape.ptr())) throw nb::type_error("a shape is a tuple");
    const Py_ssize_t size = PyTuple_GET_SIZE(shape.ptr());
    begin('S', size);
    for (Py_ssize_t i = 0; i < size; ++i) append(integer(PyTuple_GET_ITEM(shape.ptr(), i)));
    append(integer(attribute(x, classes_.origin).ptr()));
  }

  static nb::object attribute(PyObject* x, const nb::object& name) {
    PyObject* found = PyObject_GetAttr(x, name.ptr());
    if (found == nullptr) throw nb::python_error();
    return nb::steal(found);
  }

  // Of anything with __index__, such as a symbolic size.
  static std::int64_t integer(PyObject* x) {
    const long long number = PyLong_AsLongLong(x);
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return number;
  }

  const Classes& classes_;
  std::string& bytes_;
  int depth_ = 0;
};

}  // namespace tacit
