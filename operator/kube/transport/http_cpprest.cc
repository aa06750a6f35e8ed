#include "operator/kube/transport/http_cpprest.h"

#include <cpprest/astreambuf.h>
#include <cpprest/http_client.h>
#include <cpprest/streams.h>
#include <cpprest/uri_builder.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <boost/asio/ssl.hpp>
#include <exception>
#include <utility>

#include "operator/kube/transport/exchange_transport.h"

namespace swarm::kube {
namespace {

namespace streams = concurrency::streams;
using web::http::client::http_client;
using web::http::client::http_client_config;

// The threads of the library serve sockets and short continuations. Long work runs on the threads
// of the callers.
constexpr std::size_t kThreads = 4;
// The library's limit for one operation. The limits of the caller are shorter, and the caller's
// thread enforces them. This one only cleans up connections that could not be closed.
constexpr std::chrono::seconds kRequestOperation{120};
constexpr std::chrono::seconds kWatchOperation{900};

void SizeThreadPool() {
  static const bool sized = [] {
    try {
      crossplat::threadpool::initialize_with_threads(kThreads);
    } catch (const std::exception&) {
      return false;  // the library was used before: it has forty threads already, which is fine
    }
    return true;
  }();
  static_cast<void>(sized);
}

// The library's end of an Exchange, used instead of the library's buffer, which has no bound. It is
// write-only, which is enough for the body of an answer.
class BodyBuffer final : public streams::details::streambuf_state_manager<std::uint8_t> {
 public:
  explicit BodyBuffer(std::shared_ptr<Exchange> exchange)
      : streambuf_state_manager(std::ios_base::out), exchange_(std::move(exchange)) {}

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}
  std::size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return pos_type(traits::eof()); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return pos_type(traits::eof()); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return pos_type(traits::eof());
  }
  bool acquire(std::uint8_t*&, std::size_t&) override { return false; }
  void release(std::uint8_t*, std::size_t) override {}

 private:
  pplx::task<std::size_t> _putn(const std::uint8_t* bytes, std::size_t count) override {
    const pplx::task_completion_event<std::size_t> taken;
    exchange_->Put({reinterpret_cast<const char*>(bytes), count}, [taken, count](bool wanted) {
      if (wanted) {
        taken.set(count);
      } else {
        taken.set_exception(std::runtime_error("the reader of this body has gone"));
      }
    });
    return pplx::create_task(taken);
  }
  pplx::task<int_type> _putc(std::uint8_t byte) override {
    return _putn(&byte, 1).then([byte](std::size_t) -> int_type { return byte; });
  }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}

  // Reading is not supported.
  pplx::task<int_type> _bumpc() override { return pplx::task_from_result(traits::eof()); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return pplx::task_from_result(traits::eof()); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return pplx::task_from_result(traits::eof()); }
  pplx::task<int_type> _ungetc() override { return pplx::task_from_result(traits::eof()); }
  pplx::task<std::size_t> _getn(std::uint8_t*, std::size_t) override {
    return pplx::task_from_result(std::size_t{0});
  }
  std::size_t _scopy(std::uint8_t*, std::size_t) override { return 0; }

  const std::shared_ptr<Exchange> exchange_;
};

Status StatusOf(const std::exception& error) { return Unavailable(error.what()); }

HttpHead HeadOf(const web::http::http_response& response) {
  HttpHead head;
  head.status = response.status_code();
  for (const auto& [name, value] : response.headers()) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    head.headers[lower] = value;
  }
  return head;
}

// The tasks are complete when these run, so get() does not block a thread of the pool.
void OnBodyEnd(const std::shared_ptr<Exchange>& exchange,
               const pplx::task<web::http::http_response>& done) {
  try {
    done.get();
    exchange->OnEnd(Status());
  } catch (const std::exception& error) {
    exchange->OnEnd(StatusOf(error));
  }
}

void OnHeadOrFailure(const std::shared_ptr<Exchange>& exchange,
                     const pplx::task<web::http::http_response>& done) {
  try {
    const web::http::http_response response = done.get();
    exchange->OnHead(HeadOf(response));
    response.content_ready().then([exchange](const pplx::task<web::http::http_response>& body) {
      OnBodyEnd(exchange, body);
    });
  } catch (const std::exception& error) {
    exchange->OnEnd(StatusOf(error));
  }
}

// Configures a new connection. Unusable material is left out, and then the handshake fails.
void UseMaterial(const TlsMaterial& material, boost::asio::ssl::context& context) {
  const auto buffer = [](const std::string& pem) {
    return boost::asio::const_buffer(pem.data(), pem.size());
  };
  boost::system::error_code ignored;
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  // The library adds the authorities of the machine. A cluster has its own, and no others are
  // trusted, unless the material says so.
  if (!material.machine_authorities) {
    SSL_CTX_set_cert_store(context.native_handle(), X509_STORE_new());
  }
  if (!material.ca.empty()) context.add_certificate_authority(buffer(material.ca), ignored);
  if (!material.certificate.empty()) {
    context.use_certificate_chain(buffer(material.certificate), ignored);
    context.use_private_key(buffer(material.key), boost::asio::ssl::context::pem, ignored);
  }
}

// With the port and the credentials that the library does not find itself: without a port it takes
// 8080, and it leaves out what stands before the @.
web::web_proxy ProxyAt(const std::string& url) {
  constexpr int kDefaultPort = 80;
  const web::uri address(url);
  web::uri_builder with_port(address);
  with_port.set_user_info("");
  if (address.port() <= 0) with_port.set_port(kDefaultPort);
  web::web_proxy proxy(with_port.to_uri());
  if (const std::string info = address.user_info(); !info.empty()) {
    const std::size_t colon = std::min(info.find(':'), info.size());
    const std::string password = info.substr(std::min(colon + 1, info.size()));
    proxy.set_credentials({web::uri::decode(info.substr(0, colon)), web::uri::decode(password)});
  }
  return proxy;
}

http_client_config MakeConfig(const CpprestOptions& options, std::chrono::seconds operation) {
  http_client_config config;
  config.set_timeout(operation);
  config.set_max_redirects(0);
  if (!options.proxy.empty()) config.set_proxy(ProxyAt(options.proxy));
  if (options.tls) {
    config.set_validate_certificates(!options.tls().insecure);
    config.set_ssl_context_callback(
        [tls = options.tls](boost::asio::ssl::context& context) { UseMaterial(tls(), context); });
  }
  return config;
}

web::http::http_request MakeRequest(const HttpRequest& request, const std::string& tls_server_name,
                                    const std::shared_ptr<Exchange>& exchange) {
  web::http::http_request made(request.method);
  made.set_request_uri(web::uri(request.target));
  // The library takes the name for the handshake and for the certificate from this header.
  if (!tls_server_name.empty()) made.headers().add("Host", tls_server_name);
  std::string content_type = "application/json";
  for (const auto& [name, value] : request.headers) {
    if (name == "content-type") {
      content_type = value;
    } else {
      made.headers().add(name, value);
    }
  }
  if (!request.body.empty()) made.set_body(request.body, content_type);
  const streams::streambuf<std::uint8_t> buffer(std::make_shared<BodyBuffer>(exchange));
  made.set_response_stream(streams::ostream(buffer));
  return made;
}

std::string HostAndPort(const web::uri& server) {
  return server.port() <= 0 ? server.host() : server.host() + ":" + std::to_string(server.port());
}

class CpprestTransport final : public ExchangeTransport {
 public:
  // Watches have connections and limits of their own.
  explicit CpprestTransport(const CpprestOptions& options)
      : requests_(web::uri(options.server), MakeConfig(options, kRequestOperation)),
        watches_(web::uri(options.server), MakeConfig(options, kWatchOperation)),
        host_(HostAndPort(web::uri(options.server))),
        tls_server_name_(options.tls_server_name) {}

  std::string host() const override { return host_; }

 private:
  Result<Cancel> Begin(Kind kind, const HttpRequest& request,
                       const std::shared_ptr<Exchange>& exchange) override {
    http_client& client = kind == Kind::kRequest ? requests_ : watches_;
    pplx::cancellation_token_source cancel;
    try {
      client.request(MakeRequest(request, tls_server_name_, exchange), cancel.get_token())
          .then([exchange](const pplx::task<web::http::http_response>& done) {
            OnHeadOrFailure(exchange, done);
          });
    } catch (const std::exception& error) {
      return StatusOf(error);
    }
    // Closes the socket. The library then releases the request.
    return Cancel([cancel] { cancel.cancel(); });
  }

  http_client requests_;
  http_client watches_;
  const std::string host_;
  const std::string tls_server_name_;
};

}  // namespace

Result<std::shared_ptr<HttpTransport>> MakeCpprestTransport(const CpprestOptions& options) {
  SizeThreadPool();
  if (options.server.find("://[") != options.server.npos && options.proxy.empty()) {
    return InvalidArgument("'" + options.server +
                           "' has an IPv6 address, which cannot be dialled; give the server a name,"
                           " in DNS or /etc/hosts, and write it in place of the address");
  }
  if (!options.proxy.empty() && !web::uri::validate(options.proxy)) {
    return InvalidArgument(
        "the proxy's address is not a URL; it may have a password, so see"
        " proxy-url of the cluster, or HTTPS_PROXY");
  }
  try {
    return std::shared_ptr<HttpTransport>(std::make_shared<CpprestTransport>(options));
  } catch (const std::exception& error) {
    return InvalidArgument("'" + options.server + "' is not the URL of a server: " + error.what());
  }
}

}  // namespace swarm::kube
