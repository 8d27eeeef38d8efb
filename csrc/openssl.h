// The functions of OpenSSL that TLS needs, from the library that Python's ssl module is linked to.
//
// They are looked up at run time, so that a process has one OpenSSL with one configuration, and so
// that a build needs no headers of it. All structures are opaque, and OpenSSL keeps these
// signatures and constants within a major version: another one than 3 is refused.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tacit {

struct SslMethod;
struct SslContext;
struct Ssl;
struct Bio;
struct BioMethod;
struct Certificate;
struct VerifyParameters;

constexpr int kPem = 1;                            // SSL_FILETYPE_PEM
constexpr int kVerifyBothSides = 1 | 2;            // SSL_VERIFY_PEER, FAIL_IF_NO_PEER_CERT
constexpr int kSetMode = 33;                       // SSL_CTRL_MODE
constexpr int kSetSessionCache = 44;               // SSL_CTRL_SET_SESS_CACHE_MODE
constexpr int kSetMinimumVersion = 123;            // SSL_CTRL_SET_MIN_PROTO_VERSION
constexpr long kTls13 = 0x0304;                    // TLS1_3_VERSION
constexpr long kPartialWrites = 1 | 2 | 4;         // with a moving buffer, and automatic retries
constexpr unsigned long kPartialChain = 0x80000;   // X509_V_FLAG_PARTIAL_CHAIN
constexpr std::uint64_t kNoCompression = 1 << 17;  // SSL_OP_NO_COMPRESSION
constexpr int kWantsRead = 2, kWantsWrite = 3;     // SSL_ERROR_WANT_READ, _WRITE
constexpr int kSetBufferSize = 117, kFlush = 11;   // BIO_C_SET_BUFF_SIZE, BIO_CTRL_FLUSH
constexpr int kOutput = 1;                         // the buffer of what is written
constexpr int kShouldRetry = 8;                    // BIO_FLAGS_SHOULD_RETRY
constexpr int kSystemError = 5, kEnded = 6;        // SSL_ERROR_SYSCALL, _ZERO_RETURN
constexpr unsigned long kReason = 0x7FFFFF;        // the bits of an error that are its reason
constexpr unsigned long kUnexpectedEnd = 294;      // SSL_R_UNEXPECTED_EOF_WHILE_READING
constexpr unsigned long kVerifyFailed = 134;       // SSL_R_CERTIFICATE_VERIFY_FAILED
constexpr unsigned long kSslErrors = 20 << 23;     // ERR_LIB_SSL in its place in an error

// Every member is named as in OpenSSL and its manual pages.
class OpenSsl {
 public:
  // `module`: the file of Python's _ssl. `version`: what that module says OpenSSL's number is.
  OpenSsl(const std::string& module, unsigned long version)
      : handle_(dlopen(module.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    if (!handle_) throw std::runtime_error("the ssl module is not loaded from a file");
    if (OpenSSL_version_num() != version || version >> 28 != 3) {
      throw std::runtime_error("not the OpenSSL 3 of the ssl module");
    }
  }

 private:
  template <class Function>
  class Symbol;

  template <class Result, class... Arguments>
  class Symbol<Result(Arguments...)> {
   public:
    Symbol(void* handle, const char* name)
        : function_(reinterpret_cast<Result (*)(Arguments...)>(find(handle, name))) {}
    Result operator()(Arguments... arguments) const { return function_(arguments...); }

   private:
    static void* find(void* handle, const char* name) {
      void* found = handle ? dlsym(handle, name) : nullptr;
      if (!found) throw std::runtime_error(std::string("no ") + name + " beside the ssl module");
      return found;
    }
    Result (*function_)(Arguments...);
  };

  void* handle_;  // never closed: Python does not unload its module either

 public:
#define TACIT_SYMBOL(name, ...) \
  const Symbol<__VA_ARGS__> name { handle_, #name }
  TACIT_SYMBOL(OpenSSL_version_num, unsigned long());
  TACIT_SYMBOL(TLS_server_method, const SslMethod*());
  TACIT_SYMBOL(TLS_client_method, const SslMethod*());
  TACIT_SYMBOL(SSL_CTX_new, SslContext*(const SslMethod*));
  TACIT_SYMBOL(SSL_CTX_free, void(SslContext*));
  TACIT_SYMBOL(SSL_CTX_ctrl, long(SslContext*, int, long, void*));
  TACIT_SYMBOL(SSL_CTX_set_options, std::uint64_t(SslContext*, std::uint64_t));
  TACIT_SYMBOL(SSL_CTX_get_security_level, int(const SslContext*));
  TACIT_SYMBOL(SSL_CTX_set_security_level, void(SslContext*, int));
  TACIT_SYMBOL(SSL_CTX_set_num_tickets, int(SslContext*, std::size_t));
  TACIT_SYMBOL(SSL_CTX_set_default_passwd_cb, void(SslContext*, int (*)(char*, int, int, void*)));
  TACIT_SYMBOL(SSL_CTX_use_certificate_chain_file, int(SslContext*, const char*));
  TACIT_SYMBOL(SSL_CTX_use_PrivateKey_file, int(SslContext*, const char*, int));
  TACIT_SYMBOL(SSL_CTX_check_private_key, int(const SslContext*));
  TACIT_SYMBOL(SSL_CTX_load_verify_locations, int(SslContext*, const char*, const char*));
  TACIT_SYMBOL(SSL_CTX_set_verify, void(SslContext*, int, int (*)(int, void*)));
  TACIT_SYMBOL(SSL_CTX_get0_param, VerifyParameters*(SslContext*));
  TACIT_SYMBOL(X509_VERIFY_PARAM_set_flags, int(VerifyParameters*, unsigned long));
  TACIT_SYMBOL(SSL_CTX_set_default_read_buffer_len, void(SslContext*, std::size_t));
  TACIT_SYMBOL(SSL_new, Ssl*(SslContext*));
  TACIT_SYMBOL(SSL_free, void(Ssl*));
  TACIT_SYMBOL(SSL_set_fd, int(Ssl*, int));
  TACIT_SYMBOL(SSL_set_accept_state, void(Ssl*));
  TACIT_SYMBOL(SSL_set_connect_state, void(Ssl*));
  TACIT_SYMBOL(SSL_do_handshake, int(Ssl*));
  TACIT_SYMBOL(SSL_get_version, const char*(const Ssl*));
  TACIT_SYMBOL(SSL_read_ex, int(Ssl*, void*, std::size_t, std::size_t*));
  TACIT_SYMBOL(SSL_write_ex, int(Ssl*, const void*, std::size_t, std::size_t*));
  TACIT_SYMBOL(SSL_pending, int(const Ssl*));
  TACIT_SYMBOL(SSL_has_pending, int(const Ssl*));
  TACIT_SYMBOL(SSL_set_read_ahead, void(Ssl*, int));
  TACIT_SYMBOL(SSL_get_wbio, Bio*(const Ssl*));
  TACIT_SYMBOL(SSL_set0_wbio, void(Ssl*, Bio*));
  TACIT_SYMBOL(BIO_f_buffer, const BioMethod*());
  TACIT_SYMBOL(BIO_new, Bio*(const BioMethod*));
  TACIT_SYMBOL(BIO_push, Bio*(Bio*, Bio*));
  TACIT_SYMBOL(BIO_up_ref, int(Bio*));
  TACIT_SYMBOL(BIO_int_ctrl, long(Bio*, int, long, int));
  TACIT_SYMBOL(BIO_ctrl, long(Bio*, int, long, void*));
  TACIT_SYMBOL(BIO_test_flags, int(const Bio*, int));
  TACIT_SYMBOL(SSL_shutdown, int(Ssl*));
  TACIT_SYMBOL(SSL_get_error, int(const Ssl*, int));
  TACIT_SYMBOL(SSL_get_verify_result, long(const Ssl*));
  TACIT_SYMBOL(SSL_get1_peer_certificate, Certificate*(const Ssl*));
  TACIT_SYMBOL(i2d_X509, int(const Certificate*, unsigned char**));
  TACIT_SYMBOL(X509_free, void(Certificate*));
  TACIT_SYMBOL(X509_verify_cert_error_string, const char*(long));
  TACIT_SYMBOL(ERR_clear_error, void());
  TACIT_SYMBOL(ERR_peek_last_error, unsigned long());
  TACIT_SYMBOL(ERR_reason_error_string, const char*(unsigned long));
#undef TACIT_SYMBOL
};

}  // namespace tacit
