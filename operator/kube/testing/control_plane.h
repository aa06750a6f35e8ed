// A real API server for a test: etcd and kube-apiserver as e2e/build.sh builds them, on loopback,
// without controllers: the server validates and stores objects, and nothing acts on them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/testing/temporary_folder.h"
#include "operator/kube/transport/http.h"
#include "operator/kube/transport/tls.h"

namespace swarm::kube {

/// A program that ends with this object, or with this process.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& log);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool running();

 private:
  pid_t pid_ = -1;
};

class ControlPlane {
 public:
  static constexpr const char* kAdminToken = "admin-token";
  /// The token of a user without any rights.
  static constexpr const char* kStrangerToken = "stranger-token";

  /// Whether `binaries` has the programs that are needed.
  static bool CanRun(const std::filesystem::path& binaries);
  /// Waits until the server is ready, for two minutes.
  static Result<std::unique_ptr<ControlPlane>> Start(const std::filesystem::path& binaries);

  std::shared_ptr<HttpTransport> transport() const { return transport_; }
  /// Of the API server, and the PEM of its authority.
  std::string url() const;
  const std::string& authority() const { return ca_; }

  /// Kills the API server.
  void KillServer();
  /// Starts the API server again. etcd has kept its state.
  Status StartServer();

 private:
  explicit ControlPlane(std::filesystem::path binaries);
  Status WriteIdentities();
  Status WaitUntilReady();

  const std::filesystem::path binaries_;
  const TemporaryFolder folder_;
  const int etcd_port_;
  const int etcd_peer_port_;
  const int server_port_;
  std::string ca_;
  std::shared_ptr<HttpTransport> transport_;
  std::unique_ptr<ChildProcess> etcd_;
  std::unique_ptr<ChildProcess> server_;
};

}  // namespace swarm::kube
