// FindConfig: the files, the environment and the keys behind what kubeconfig files say.
#include <mutex>
#include <utility>
#include <vector>

#include "operator/kube/config/config.h"
#include "operator/kube/config/files.h"

namespace swarm::kube {
namespace {

/// The paths that may have kubeconfig files; empty: none is asked for.
std::vector<std::string> PlacesOf(const Environment& environment, bool home) {
  std::vector<std::string> places;
  std::string list = environment("KUBECONFIG");
  if (list.empty()) {
    const std::string folder = home ? environment("HOME") : "";
    if (!folder.empty()) places.push_back(folder + "/.kube/config");
    return places;
  }
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end > 0) places.push_back(list.substr(0, end));
    list.erase(0, end + 1);
  }
  return places;
}

/// Those of the files that exist, as kubectl reads them.
Result<std::vector<KubeconfigText>> ReadThoseThatExist(const std::vector<std::string>& places) {
  std::vector<KubeconfigText> files;
  for (const std::string& path : places) {
    auto text = ReadSmallFile(path);
    if (text.status().code() == StatusCode::kNotFound) continue;
    if (!text.ok()) return text.status();
    files.push_back({path, *std::move(text)});
  }
  return files;
}

// PEM in the kubeconfig or in another file, which is read again for each use.
class Pem {
 public:
  static Result<Pem> Open(const PemPlace& place) {
    Pem pem;
    pem.text_ = place.text;
    if (!place.text.empty() || place.file.empty()) return pem;
    pem.path_ = place.file;
    ASSIGN_OR_RETURN(pem.text_, ReadSmallFile(pem.path_));
    return pem;
  }

  const std::string& Read() {
    if (!path_.empty()) {
      if (auto text = ReadSmallFile(path_); text.ok() && !text->empty()) {
        text_ = std::move(text).value();
      }
    }
    return text_;
  }

 private:
  std::filesystem::path path_;  // empty: it does not change
  std::string text_;
};

struct TlsFiles {
  std::mutex mutex;
  Pem ca, certificate, key;
  bool insecure = false;
  bool machine_authorities = false;
  std::function<ClientCertificate()> from_plugin;  // empty: no plugin
};

TlsMaterial ReadMaterial(TlsFiles& files) {
  const std::lock_guard lock(files.mutex);
  TlsMaterial material{files.ca.Read(), files.certificate.Read(), files.key.Read(), files.insecure,
                       files.machine_authorities};
  if (files.from_plugin) {
    ClientCertificate made = files.from_plugin();
    material.certificate = std::move(made.certificate);
    material.key = std::move(made.key);
  }
  return material;
}

Result<PluginIdentity> RunnablePlugin(const ExecPlugin& plugin, const KubeCluster& cluster,
                                      const std::string& authority, const PluginMaker& maker) {
  if (maker) return maker(plugin, cluster, authority);
  return InvalidArgument(
      "the user's exec plugin is not run here; give a token of a service account "
      "(kubectl create token)");
}

// Fills in `credentials` and `tls`.
Status FindIdentity(const KubeCluster& cluster, const KubeUser& user, const PluginMaker& maker,
                    Timing& timing, Config* config) {
  auto files = std::make_shared<TlsFiles>();
  files->insecure = cluster.insecure;
  files->machine_authorities = cluster.authority.empty();
  ASSIGN_OR_RETURN(files->ca, Pem::Open(cluster.authority));
  ASSIGN_OR_RETURN(files->certificate, Pem::Open(user.certificate));
  ASSIGN_OR_RETURN(files->key, Pem::Open(user.key));
  if (!user.token_file.empty()) {
    config->credentials = TokenFile(user.token_file, timing);
  } else if (user.plugin && user.token.empty() && user.certificate.empty()) {
    ASSIGN_OR_RETURN(const PluginIdentity identity,
                     RunnablePlugin(*user.plugin, cluster, files->ca.Read(), maker));
    config->credentials = identity.credentials;
    files->from_plugin = identity.certificate;
  } else {
    config->credentials = FixedToken(user.token);
  }
  config->tls = [files] { return ReadMaterial(*files); };
  return Status();
}

Result<Config> ConfigOf(const KubeContext& context, const KubeconfigOptions& options,
                        const Environment& environment, Timing& timing) {
  const KubeCluster& cluster = context.cluster;
  if (cluster.insecure && !options.allow_insecure) {
    return InvalidArgument(
        "insecure-skip-tls-verify trusts any server; it is obeyed only with "
        "--allow-insecure");
  }
  Config config;
  config.server = cluster.server;
  config.ns = context.ns;
  config.tls_server_name = cluster.tls_server_name;
  ASSIGN_OR_RETURN(
      config.proxy,
      CheckedProxy(cluster.proxy.empty() ? ProxyFor(cluster.server, environment) : cluster.proxy));
  // As kubectl: what proves an identity is never sent in the clear.
  const bool is_encrypted = cluster.server.starts_with("https://");
  RETURN_IF_ERROR(FindIdentity(cluster, is_encrypted ? context.user : KubeUser{}, options.plugin,
                               timing, &config));
  return config;
}

Result<Config> InClusterOr(const std::vector<std::string>& missing,
                           const KubeconfigOptions& options, const Environment& environment,
                           Timing& timing) {
  std::string places;
  for (const std::string& path : missing) places += (places.empty() ? "" : ", ") + path;
  if (!options.context.empty()) {
    return InvalidArgument("there is no kubeconfig with the context '" + options.context +
                           "': use --kubeconfig FILE, or set KUBECONFIG" +
                           (places.empty() ? "" : " (" + places + ": no such file)"));
  }
  auto config = InClusterConfig(kServiceAccountFolder, environment, timing);
  if (!config.ok() && !places.empty()) {
    return config.status().WithContext("no such file: " + places);
  }
  return config;
}

}  // namespace

Result<Config> FindConfig(const std::string& path, const KubeconfigOptions& options,
                          const Environment& environment, Timing& timing) {
  std::vector<KubeconfigText> files;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path));
    files.push_back({path, std::move(text)});
  } else {
    const std::vector<std::string> places = PlacesOf(environment, options.home);
    ASSIGN_OR_RETURN(files, ReadThoseThatExist(places));
    if (files.empty()) return InClusterOr(places, options, environment, timing);
  }
  ASSIGN_OR_RETURN(const KubeContext context, ChooseContext(files, options.context));
  return ConfigOf(context, options, environment, timing);
}

}  // namespace swarm::kube
