#include "operator/kube/testing/control_plane.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/identity/authority.h"
#include "operator/kube/transport/http_cpprest.h"

namespace swarm::kube {
namespace {

// A port that the kernel chose. If another process takes it first, the test fails at its start.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  SWARM_CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0, "no free port");
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

std::string Url(const std::string& scheme, int port) {
  return scheme + "://127.0.0.1:" + std::to_string(port);
}

void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ != 0) return;
  // The child must not outlive the test, however the test ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool ChildProcess::running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

bool ControlPlane::CanRun(const std::filesystem::path& binaries) {
  return access((binaries / "etcd").c_str(), X_OK) == 0 &&
         access((binaries / "kube-apiserver").c_str(), X_OK) == 0;
}

ControlPlane::ControlPlane(std::filesystem::path binaries)
    : binaries_(std::move(binaries)),
      etcd_port_(FreePort()),
      etcd_peer_port_(FreePort()),
      server_port_(FreePort()) {}

Result<std::unique_ptr<ControlPlane>> ControlPlane::Start(const std::filesystem::path& binaries) {
  std::unique_ptr<ControlPlane> plane(new ControlPlane(binaries));
  const std::string folder = plane->folder_.path().string();
  RETURN_IF_ERROR(plane->WriteIdentities());
  const std::string peer = Url("http", plane->etcd_peer_port_);
  const std::string client = Url("http", plane->etcd_port_);
  plane->etcd_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{binaries / "etcd", "--data-dir=" + folder + "/etcd",
                               "--listen-client-urls=" + client,
                               "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
                               "--initial-advertise-peer-urls=" + peer,
                               "--initial-cluster=default=" + peer, "--unsafe-no-fsync"},
      folder + "/etcd.log");
  RETURN_IF_ERROR(plane->StartServer());
  return plane;
}

Status ControlPlane::WriteIdentities() {
  ASSIGN_OR_RETURN(const auto authority, identity::JobAuthority::Create("control-plane"));
  ASSIGN_OR_RETURN(const auto server,
                   authority.Issue("server", identity::TrainerUri("control-plane")));
  ca_ = authority.pair().certificate;
  WriteText(folder_ / "server.crt", server.certificate);
  WriteText(folder_ / "server.key", server.key);
  WriteText(folder_ / "tokens.csv", std::string(kAdminToken) + ",admin,1,system:masters\n" +
                                        kStrangerToken + ",stranger,2\n");
  ASSIGN_OR_RETURN(transport_,
                   MakeCpprestTransport({.server = url(),
                                         .tls = [ca = ca_] { return TlsMaterial{.ca = ca}; }}));
  return Status();
}

std::string ControlPlane::url() const { return Url("https", server_port_); }

void ControlPlane::KillServer() { server_.reset(); }

Status ControlPlane::StartServer() {
  const std::string folder = folder_.path().string();
  server_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{
          binaries_ / "kube-apiserver", "--etcd-servers=" + Url("http", etcd_port_),
          "--bind-address=127.0.0.1", "--secure-port=" + std::to_string(server_port_),
          "--tls-cert-file=" + folder + "/server.crt",
          "--tls-private-key-file=" + folder + "/server.key",
          "--token-auth-file=" + folder + "/tokens.csv",
          "--service-account-key-file=" + folder + "/server.crt",
          "--service-account-signing-key-file=" + folder + "/server.key",
          "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
          // No controller creates the accounts and quotas that these plugins wait for.
          "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
          "--service-cluster-ip-range=10.0.0.0/24"},
      folder + "/server.log");
  return WaitUntilReady();
}

Status ControlPlane::WaitUntilReady() {
  HttpRequest request{"GET", "/readyz", {}, ""};
  request.headers["authorization"] = std::string("Bearer ") + kAdminToken;
  const Timepoint deadline = Clock::now() + std::chrono::minutes(2);
  while (Clock::now() < deadline && server_->running()) {
    const auto answer = transport_->Send(request, {.timeout = std::chrono::seconds(5)}, {});
    if (answer.ok() && answer->head.status == 200) return Status();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::ifstream log(folder_ / "server.log");
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  return DeadlineExceeded("the API server does not become ready; it said: " +
                          text.substr(text.size() - std::min<std::size_t>(text.size(), 2000)));
}

}  // namespace swarm::kube
