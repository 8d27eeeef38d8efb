// The module `openssl`: TLS 1.3 on a connected socket that does not block. One call passes as many
// records as the socket takes or gives, without the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carrier.h"
#include "message.h"
#include "openssl.h"
#include "slice_threads.h"

namespace tacit {
namespace {

namespace nb = nanobind;

constexpr std::size_t kRecord = 1 << 14;  // the most that TLS encrypts at one time
constexpr std::size_t kBulk = 1 << 16;    // bytes that pass in one call of the system, in bulk
constexpr int kSecurityLevel = 2;         // as Python's ssl: 112 bits in every certificate

using Clock = std::chrono::steady_clock;
using Library = std::shared_ptr<OpenSsl>;

template <class Object>
using Owned = std::unique_ptr<Object, std::function<void(Object*)>>;

// The memory of a Python object, while the interpreter's lock is given up.
class Buffer {
 public:
  Buffer(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags)) throw nb::python_error();
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }
  char* data() const { return static_cast<char*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_;
};

int no_password(char*, int, int, void*) { return 0; }

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("OpenSSL has no ") + what);
}

// The settings, certificate and key of one role, client or server.
class TlsContext {
 public:
  // `identity` is the path of a PEM file with this side's certificates and key, `trusted` of one
  // with the certificates that the other side may show. Both are read here and not again.
  TlsContext(Library library, bool server, const std::string& identity, const std::string& trusted)
      : ssl(std::move(library)),
        server(server),
        context(ssl->SSL_CTX_new(server ? ssl->TLS_server_method() : ssl->TLS_client_method()),
                [ssl = ssl](SslContext* one) { ssl->SSL_CTX_free(one); }) {
    require(context != nullptr, "context");
    set_options();
    const char* const missing = load(identity.c_str(), trusted.c_str());
    ssl->ERR_clear_error();
    require(!missing, missing);
  }

  const Library ssl;
  const bool server;
  const Owned<SslContext> context;

 private:
  void set_options() {
    SslContext* const context = this->context.get();
    require(ssl->SSL_CTX_ctrl(context, kSetMinimumVersion, kTls13, nullptr) == 1, "TLS 1.3");
    ssl->SSL_CTX_ctrl(context, kSetMode, kPartialWrites, nullptr);
    ssl->SSL_CTX_ctrl(context, kSetSessionCache, 0, nullptr);
    ssl->SSL_CTX_set_options(context, kNoCompression);
    ssl->SSL_CTX_set_default_read_buffer_len(context, kBulk);
    ssl->SSL_CTX_set_num_tickets(context, 0);  // nothing flows against the data
    if (ssl->SSL_CTX_get_security_level(context) < kSecurityLevel) {
      ssl->SSL_CTX_set_security_level(context, kSecurityLevel);
    }
    ssl->SSL_CTX_set_verify(context, kVerifyBothSides, nullptr);
    auto* const parameters = ssl->SSL_CTX_get0_param(context);
    require(ssl->X509_VERIFY_PARAM_set_flags(parameters, kPartialChain) == 1, "partial chain");
  }

  // Returns what cannot be read or used, if anything.
  const char* load(const char* identity, const char* trusted) {
    SslContext* const context = this->context.get();
    ssl->SSL_CTX_set_default_passwd_cb(context, no_password);
    if (ssl->SSL_CTX_load_verify_locations(context, trusted, nullptr) != 1) return "trusted";
    if (ssl->SSL_CTX_use_certificate_chain_file(context, identity) != 1) return "certificate";
    if (ssl->SSL_CTX_use_PrivateKey_file(context, identity, kPem) != 1) return "key";
    return ssl->SSL_CTX_check_private_key(context) == 1 ? nullptr : "a key of the certificate";
  }
};

// TLS between a handshake and its end. One thread at a time may call it.
class TlsSession final : public Carrier {
 public:
  TlsSession(const TlsContext& context, int socket)
      : ssl_(context.ssl),
        owned_(ssl_->SSL_new(context.context.get()),
               [ssl = ssl_](Ssl* one) { ssl->SSL_free(one); }),
        session_(owned_.get()),
        socket_(socket) {
    require(session_ && ssl_->SSL_set_fd(session_, socket) == 1, "session");
    context.server ? ssl_->SSL_set_accept_state(session_) : ssl_->SSL_set_connect_state(session_);
  }

  // Returns 1 when it is complete, or a Status.
  long handshake() {
    const nb::gil_scoped_release unlocked;
    return status([&] { return ssl_->SSL_do_handshake(session_) == 1 ? 1 : -1; });
  }

  // Returns how many bytes it has read; 0 if the other side has ended TLS; or a Status. With
  // `milliseconds` it goes on for so long, also by waiting, until all bytes are here.
  long read(nb::handle into, int milliseconds) {
    const Buffer buffer(into, PyBUF_WRITABLE);
    const nb::gil_scoped_release unlocked;
    return read_for(buffer.data(), buffer.size(), milliseconds);
  }

  // Reads the message of this number and digest, in `buffer`, to the places of its tensors, and
  // returns kTaken. If it is not the next one, or not all of it is here, it returns how many bytes
  // of what came are in the buffer; or a Status.
  long receive(Message& message, std::uint64_t number, const nb::bytes& digest, nb::handle buffer,
               int milliseconds) {
    message.set_head(number, {digest.c_str(), digest.size()});
    const Buffer bytes(buffer, PyBUF_WRITABLE);
    if (bytes.size() < message.size()) throw std::invalid_argument("a buffer that is too small");
    const nb::gil_scoped_release unlocked;
    const long count = read_for(bytes.data(), message.size(), milliseconds);
    const bool is_whole = count == static_cast<long>(message.size());
    return is_whole && message.scatter(bytes.data()) ? kTaken : count;
  }

  // Lets many records pass in one call of the system, from now on, after the handshake. Whoever
  // writes sends all records of a call before it returns, for as long as that takes: the other end
  // has to read, or somebody to end the connection. Whoever reads may take more from the socket
  // than the records that it returns: no poll of the socket tells whether others are here, and what
  // follows the end of TLS would be lost, so that `end_bulk` has to be called before that.
  void begin_bulk() {
    is_bulk_ = true;
    ssl_->SSL_set_read_ahead(session_, 1);
    Bio* const socket = ssl_->SSL_get_wbio(session_);
    Bio* const buffer = ssl_->BIO_new(ssl_->BIO_f_buffer());
    require(buffer && ssl_->BIO_int_ctrl(buffer, kSetBufferSize, kBulk, kOutput) == 1, "buffer");
    ssl_->BIO_up_ref(socket);  // it stays where bytes are read from
    ssl_->BIO_push(buffer, socket);
    ssl_->SSL_set0_wbio(session_, buffer);
  }

  // From now on takes no more than one record from the socket.
  void end_bulk() { ssl_->SSL_set_read_ahead(session_, 0); }

  // Returns whether there is something to read, or an end, after so long at most. For any thread.
  bool wait(int milliseconds) const {
    if (holds_bytes_) return true;
    const nb::gil_scoped_release unlocked;
    pollfd one{socket_, POLLIN, 0};
    return poll(&one, 1, milliseconds) != 0;
  }

  // Returns how many bytes it has written, or a Status. What comes next must begin with the rest.
  // With `milliseconds` it goes on for so long, also by waiting, until all bytes are written.
  long write(nb::handle from, int milliseconds) {
    const Buffer buffer(from, PyBUF_SIMPLE);
    const nb::gil_scoped_release unlocked;
    return write_for(buffer.data(), buffer.size(), milliseconds, true);
  }

  long read_for(char* into, std::size_t size, int milliseconds) override {
    const auto record = [&](char* data, std::size_t left, std::size_t* count) {
      return ssl_->SSL_read_ex(session_, data, left, count);
    };
    const long result = pass(into, size, record, after_read_, milliseconds);
    const auto held = is_bulk_ ? ssl_->SSL_has_pending(session_) : ssl_->SSL_pending(session_);
    holds_bytes_ = held > 0 || after_read_ != 1;
    return result;
  }

  long write_for(char* from, std::size_t size, int milliseconds, bool are_last) override {
    const auto record = [&](const char* data, std::size_t left, std::size_t* count) {
      return ssl_->SSL_write_ex(session_, data, left, count);
    };
    const long count = pass(from, size, record, after_write_, milliseconds);
    if (is_bulk_ && are_last && count == static_cast<long>(size)) flush();
    return count;
  }

  // Sends what the tensors of a message hold now; returns like `write`.
  long send(Message& message, std::uint64_t number, const nb::bytes& digest) {
    message.set_head(number, {digest.c_str(), digest.size()});
    const nb::gil_scoped_release unlocked;
    if (outgoing_.size() < message.size()) outgoing_.resize(message.size());
    message.gather(outgoing_.data());
    return write_for(outgoing_.data(), message.size(), 0, true);
  }

  // Ends TLS on this side; returns 1 when the other side has ended it, too, or a Status.
  long end() {
    const nb::gil_scoped_release unlocked;
    const auto shutdown = [&] { return ssl_->SSL_shutdown(session_); };
    const long first = status(shutdown);
    return first == 0 ? status(shutdown) : first;
  }

  // The certificate of the other side (DER), after the handshake.
  nb::bytes peer_certificate() const {
    const Owned<Certificate> certificate(ssl_->SSL_get1_peer_certificate(session_),
                                         [this](Certificate* one) { ssl_->X509_free(one); });
    const int size = certificate ? ssl_->i2d_X509(certificate.get(), nullptr) : 0;
    std::string encoded(size > 0 ? size : 0, '\0');
    auto* out = reinterpret_cast<unsigned char*>(encoded.data());
    if (size > 0) ssl_->i2d_X509(certificate.get(), &out);
    return nb::bytes(encoded.data(), encoded.size());
  }

  std::string version() const { return ssl_->SSL_get_version(session_); }

  // Why the last call returned kSystem (errno) or kFailed (OpenSSL's reason). The code of what is
  // wrong with the other side's certificate is 0 if it is not that.
  int system_error() const { return errno_; }
  const std::string& reason() const { return reason_; }
  long verify_code() const { return verify_code_; }
  std::string verify_message() const { return ssl_->X509_verify_cert_error_string(verify_code_); }

 private:
  // Sends what is in the buffer of a bulk session. A failure is that of the next call.
  void flush() {
    Bio* const buffer = ssl_->SSL_get_wbio(session_);
    while (ssl_->BIO_ctrl(buffer, kFlush, 0, nullptr) <= 0) {
      if (!ssl_->BIO_test_flags(buffer, kShouldRetry)) break;
      pollfd one{socket_, POLLOUT, 0};
      poll(&one, 1, -1);
    }
    ssl_->ERR_clear_error();
  }

  // Passes records while they are full, as all of a long message are but its last one, or all that
  // come within so many milliseconds. A failure after some of them is kept in `later`, for the next
  // call.
  template <class Record>
  long pass(char* bytes, std::size_t size, const Record& record, long& later, int milliseconds) {
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(milliseconds);
    std::size_t done = 0, count = kRecord;
    long last = std::exchange(later, 1);
    while (last > 0 && done < size && (count == kRecord || milliseconds > 0)) {
      count = 0;
      char* const data = bytes + done;
      last = status([&] { return record(data, size - done, &count) ? 1 : -1; });
      done += count;
      if (milliseconds > 0 && done < size) last = after_wait(last, until);
    }
    if (!done) return last;
    if (last != kWantRead && last != kWantWrite) later = last;
    return static_cast<long>(done);
  }

  // Returns 1 once what a call wants is there; what it wants if that does not come in time.
  long after_wait(long wanted, Clock::time_point until) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return wanted == 1 ? kWantRead : wanted;
    if (wanted != kWantRead && wanted != kWantWrite) return wanted;
    pollfd one{socket_, static_cast<short>(wanted == kWantRead ? POLLIN : POLLOUT), 0};
    return poll(&one, 1, static_cast<int>(left)) > 0 ? 1 : wanted;
  }

  // The result of a call of OpenSSL if it is not negative; else why it is.
  template <class Call>
  long status(const Call& call) {
    ssl_->ERR_clear_error();
    errno = 0;
    const int result = call();
    if (result >= 0) return result;
    errno_ = errno;
    const long why = reason_of(ssl_->SSL_get_error(session_, result));
    ssl_->ERR_clear_error();  // this thread's list of errors is also that of Python's ssl
    return why;
  }

  long reason_of(int error) {
    switch (error) {
      case kWantsRead:
        return kWantRead;
      case kWantsWrite:
        return kWantWrite;
      case kEnded:
        return 0;
      case kSystemError:
        return errno_ ? kSystem : kCut;
      default:
        return failure();
    }
  }

  long failure() {
    const unsigned long error = ssl_->ERR_peek_last_error();
    if ((error & ~kReason) == kSslErrors && (error & kReason) == kUnexpectedEnd) return kCut;
    const char* reason = ssl_->ERR_reason_error_string(error);
    reason_ = reason ? reason : "";
    const bool refused = (error & ~kReason) == kSslErrors && (error & kReason) == kVerifyFailed;
    verify_code_ = refused ? ssl_->SSL_get_verify_result(session_) : 0;
    return kFailed;
  }

  const Library ssl_;
  const Owned<Ssl> owned_;
  Ssl* const session_;
  const int socket_;
  bool is_bulk_ = false;
  std::vector<char> outgoing_;             // the message that is sent, or was sent last
  std::atomic<bool> holds_bytes_ = false;  // the last read left a part of a record, or an end
  long after_read_ = 1, after_write_ = 1;  // what the next call tells, if it is not 1
  int errno_ = 0;
  std::string reason_;
  long verify_code_ = 0;
};

// The slices of a part as tuples: a session, a head, and the memory of bytes as Python objects.
std::vector<Slice> slices_of(const nb::list& given) {
  std::vector<Slice> slices;
  for (const nb::handle item : given) {
    const auto one = nb::cast<nb::tuple>(item);
    const auto head = nb::cast<nb::bytes>(one[1]);
    slices.push_back({nb::cast<TlsSession*>(one[0]), {head.c_str(), head.size()}, {}});
    for (const nb::handle object : one[2]) {
      const Buffer memory(object, PyBUF_WRITABLE);
      slices.back().bytes.emplace_back(memory.data(), memory.size());
    }
  }
  return slices;
}

}  // namespace
}  // namespace tacit

NB_MODULE(openssl, module) {
  namespace nb = nanobind;
  using namespace tacit;
  nb::set_leak_warnings(false);  // connections may be open when the interpreter ends
  nb::class_<OpenSsl>(module, "OpenSsl").def(nb::init<const std::string&, unsigned long>());
  nb::class_<TlsContext>(module, "TlsContext")
      .def(nb::init<Library, bool, const std::string&, const std::string&>());
  nb::class_<Message>(module, "Message")
      .def("__init__",
           [](Message* self, const nb::bytes& head, std::vector<Message::Part> parts,
              std::vector<std::size_t> headers, std::size_t number_at, std::size_t digest_at) {
             new (self) Message({head.c_str(), head.size()}, std::move(parts), std::move(headers),
                                number_at, digest_at);
           })
      .def_prop_ro("size", &Message::size)
      .def("encoded", [](Message& self, std::uint64_t number, const nb::bytes& digest) {
        self.set_head(number, {digest.c_str(), digest.size()});
        std::string bytes(self.size(), '\0');
        self.gather(bytes.data());
        return nb::bytes(bytes.data(), bytes.size());
      });
  nb::class_<SliceThreads>(module, "SliceThreads")
      .def(nb::init<std::size_t, bool, int>())
      .def("begin",
           [](SliceThreads& self, const nb::list& slices, bool copies) {
             std::vector<Slice> found = slices_of(slices);
             const nb::gil_scoped_release unlocked;
             self.begin(std::move(found), copies);
           })
      .def("wait", &SliceThreads::wait, nb::call_guard<nb::gil_scoped_release>())
      .def("stop", &SliceThreads::stop, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("failed", &SliceThreads::failed)
      .def_prop_ro("moved", &SliceThreads::moved);
  nb::class_<TlsSession>(module, "TlsSession")
      .def(nb::init<const TlsContext&, int>())
      .def("handshake", &TlsSession::handshake)
      .def("read", &TlsSession::read, nb::arg("into"), nb::arg("milliseconds") = 0)
      .def("begin_bulk", &TlsSession::begin_bulk)
      .def("end_bulk", &TlsSession::end_bulk)
      .def("wait", &TlsSession::wait)
      .def("write", &TlsSession::write, nb::arg("from"), nb::arg("milliseconds") = 0)
      .def("send", &TlsSession::send)
      .def("receive", &TlsSession::receive)
      .def("end", &TlsSession::end)
      .def("peer_certificate", &TlsSession::peer_certificate)
      .def("version", &TlsSession::version)
      .def_prop_ro("system_error", &TlsSession::system_error)
      .def_prop_ro("reason", &TlsSession::reason)
      .def_prop_ro("verify_code", &TlsSession::verify_code)
      .def_prop_ro("verify_message", &TlsSession::verify_message);
}
