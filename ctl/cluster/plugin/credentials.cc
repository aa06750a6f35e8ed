#include "ctl/cluster/plugin/credentials.h"

#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "ctl/cluster/plugin/program.h"
#include "ctl/cluster/plugin/protocol.h"

namespace swarm::ctl {
namespace {

/// An error that another try at once would not mend.
Status Explained(const kube::ExecPlugin& plugin, const Status& error) {
  const std::string what = "the plugin '" + plugin.command + "' of the kubeconfig: ";
  if (error.code() == StatusCode::kCancelled) return error;
  if (error.code() != StatusCode::kNotFound) {
    return Status(StatusCode::kUnauthenticated, what + error.message());
  }
  return Status(StatusCode::kUnauthenticated,
                what + error.message() + "; install it, so that it is in PATH" +
                    (plugin.install_hint.empty() ? "" : ".\n" + plugin.install_hint));
}

class FromPlugin final : public kube::Credentials {
 public:
  FromPlugin(kube::ExecPlugin plugin, ProgramCall call, PluginOptions options, kube::Timing& timing)
      : plugin_(std::move(plugin)),
        call_(std::move(call)),
        options_(std::move(options)),
        timing_(timing) {}

  Result<std::string> Authorization() override {
    const std::lock_guard lock(mutex_);
    const bool ended = !current_ || (current_->expires && timing_.WallNow() >= *current_->expires);
    if (ended) RETURN_IF_ERROR(Run());
    return current_->token.empty() ? std::string() : "Bearer " + current_->token;
  }

  void OnRefused() override {
    const std::lock_guard lock(mutex_);
    current_.reset();
  }

  kube::ClientCertificate Certificate() {
    const std::lock_guard lock(mutex_);
    if (!current_) return {};
    return {current_->certificate, current_->key};
  }

 private:
  Status Run() {
    const auto output = OutputOf(call_, options_.patience, options_.stop);
    if (!output.ok()) return Explained(plugin_, output.status());
    auto credential = ReadCredential(*output, plugin_.api_version);
    if (!credential.ok()) return Explained(plugin_, credential.status());
    current_ = *std::move(credential);
    return Status();
  }

  const kube::ExecPlugin plugin_;
  const ProgramCall call_;
  const PluginOptions options_;
  kube::Timing& timing_;
  std::mutex mutex_;
  std::optional<PluginCredential> current_;  // none: run the plugin before the next use
};

}  // namespace

kube::PluginMaker RunPlugins(const PluginOptions& options, kube::Timing& timing) {
  return [options, &timing](const kube::ExecPlugin& plugin, const kube::KubeCluster& cluster,
                            const std::string& authority) -> Result<kube::PluginIdentity> {
    const auto reads_input = ReadsInput(plugin, ::isatty(STDIN_FILENO) == 1);
    if (!reads_input.ok()) {
      return reads_input.status().WithContext("the plugin '" + plugin.command +
                                              "' of the kubeconfig");
    }
    ProgramCall call{plugin.command, plugin.arguments, plugin.environment, *reads_input};
    call.environment["KUBERNETES_EXEC_INFO"] = ExecInfo(plugin, cluster, authority, *reads_input);
    const auto made = std::make_shared<FromPlugin>(plugin, std::move(call), options, timing);
    return kube::PluginIdentity{made, [made] { return made->Certificate(); }};
  };
}

}  // namespace swarm::ctl
