#include "operator/kube/config/config.h"

#include <mutex>
#include <utility>

#include "operator/kube/config/files.h"

namespace swarm::kube {
namespace {

// Reads the file of the authority for each connection. Keeps the last text while it cannot be read.
class AuthorityFile {
 public:
  AuthorityFile(std::filesystem::path path, std::string text)
      : path_(std::move(path)), text_(std::move(text)) {}

  TlsMaterial Read() {
    const std::lock_guard lock(mutex_);
    if (auto text = ReadSmallFile(path_); text.ok() && !text->empty()) {
      text_ = std::move(text).value();
    }
    return {.ca = text_};
  }

 private:
  const std::filesystem::path path_;
  std::mutex mutex_;
  std::string text_;
};

// cpprestsdk cannot dial an IPv6 address. Every cluster has this name for its API server, and the
// server's certificate has it, too.
constexpr const char* kServerName = "kubernetes.default.svc";

std::string UrlOf(const std::string& host, const std::string& port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return "https://" + (is_ipv6 ? kServerName : host) + ":" + port;
}

}  // namespace

Result<Config> InClusterConfig(const std::filesystem::path& folder, const Environment& environment,
                               Timing& timing) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return FailedPrecondition(
        "no cluster is given: use --kubeconfig FILE, or set KUBECONFIG (the service account of a"
        " pod needs KUBERNETES_SERVICE_HOST, which is not set)");
  }
  ASSIGN_OR_RETURN(std::string ca, ReadSmallFile(folder / "ca.crt"));
  ASSIGN_OR_RETURN(std::string ns, ReadTrimmed(folder / "namespace"));
  RETURN_IF_ERROR(ReadSmallFile(folder / "token").status());
  Config config;
  config.server = UrlOf(host, port);
  config.ns = std::move(ns);
  config.credentials = TokenFile(folder / "token", timing);
  auto authority = std::make_shared<AuthorityFile>(folder / "ca.crt", std::move(ca));
  config.tls = [authority] { return authority->Read(); };
  return config;
}

}  // namespace swarm::kube
