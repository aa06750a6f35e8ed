#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/format/yaml.h"
#include "base/base64.h"
#include "operator/kube/config/config.h"
#include "operator/kube/config/files.h"

namespace swarm::kube {
namespace {

using nlohmann::json;

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool Flag(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// {list: [{name: NAME, member: {...}}, ...]}: the named member.
Result<json> Named(const json& config, const char* list, const std::string& name,
                   const char* member) {
  const auto found = config.find(list);
  if (found != config.end() && found->is_array()) {
    for (const json& entry : *found) {
      if (!entry.is_object() || Text(entry, "name") != name) continue;
      const auto value = entry.find(member);
      if (value != entry.end() && value->is_object()) return *value;
    }
  }
  return InvalidArgument(std::string("it has no ") + member + " named '" + name + "' in " + list);
}

// PEM in the kubeconfig or in another file, which is read again for each use.
class Pem {
 public:
  // `key` is "certificate-authority" for the fields certificate-authority-data and
  // certificate-authority.
  static Result<Pem> Find(const json& owner, const std::string& key,
                          const std::filesystem::path& folder) {
    Pem pem;
    if (const std::string data = Text(owner, (key + "-data").c_str()); !data.empty()) {
      auto decoded = DecodeBase64(data);
      if (!decoded) return InvalidArgument(key + "-data is not base64");
      pem.text_ = *std::move(decoded);
    } else if (const std::string path = Text(owner, key.c_str()); !path.empty()) {
      pem.path_ = folder / path;  // an absolute path stays itself
      ASSIGN_OR_RETURN(pem.text_, ReadSmallFile(pem.path_));
    }
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

  bool empty() const { return text_.empty(); }

 private:
  std::filesystem::path path_;  // empty: it does not change
  std::string text_;
};

struct TlsFiles {
  std::mutex mutex;
  Pem ca, certificate, key;
  bool insecure = false;
};

Result<TlsSource> FindTls(const json& cluster, const json& user,
                          const std::filesystem::path& folder) {
  auto files = std::make_shared<TlsFiles>();
  ASSIGN_OR_RETURN(files->ca, Pem::Find(cluster, "certificate-authority", folder));
  ASSIGN_OR_RETURN(files->certificate, Pem::Find(user, "client-certificate", folder));
  ASSIGN_OR_RETURN(files->key, Pem::Find(user, "client-key", folder));
  files->insecure = Flag(cluster, "insecure-skip-tls-verify");
  if (files->certificate.empty() != files->key.empty()) {
    return InvalidArgument("client-certificate and client-key must be given together");
  }
  return TlsSource([files] {
    const std::lock_guard lock(files->mutex);
    return TlsMaterial{files->ca.Read(), files->certificate.Read(), files->key.Read(),
                       files->insecure};
  });
}

Result<std::shared_ptr<Credentials>> FindCredentials(const json& user,
                                                     const std::filesystem::path& folder,
                                                     Timing& timing) {
  for (const char* plugin : {"exec", "auth-provider"}) {
    if (user.contains(plugin)) {
      return InvalidArgument(std::string("the user's ") + plugin +
                             " plugin is not run here; give a token of a service account "
                             "(kubectl create token)");
    }
  }
  if (user.contains("username")) return InvalidArgument("passwords are not supported");
  const std::string file = Text(user, "tokenFile");
  if (!file.empty()) return TokenFile(folder / file, timing);
  return FixedToken(Text(user, "token"));
}

Status CheckCluster(const json& cluster, const KubeconfigOptions& options) {
  const std::string server = Text(cluster, "server");
  if (!server.starts_with("https://") && !server.starts_with("http://")) {
    return InvalidArgument("the server '" + server + "' is not an https:// URL");
  }
  if (Flag(cluster, "insecure-skip-tls-verify") && !options.allow_insecure) {
    return InvalidArgument(
        "insecure-skip-tls-verify trusts any server; it is obeyed only with "
        "--allow-insecure");
  }
  return Status();
}

Result<Config> ReadContext(const json& kubeconfig, const std::filesystem::path& folder,
                           const KubeconfigOptions& options, const Environment& environment,
                           Timing& timing) {
  const std::string name =
      options.context.empty() ? Text(kubeconfig, "current-context") : options.context;
  ASSIGN_OR_RETURN(const json context, Named(kubeconfig, "contexts", name, "context"));
  ASSIGN_OR_RETURN(const json cluster,
                   Named(kubeconfig, "clusters", Text(context, "cluster"), "cluster"));
  ASSIGN_OR_RETURN(const json user, Named(kubeconfig, "users", Text(context, "user"), "user"));
  RETURN_IF_ERROR(CheckCluster(cluster, options));
  Config config;
  config.server = Text(cluster, "server");
  while (config.server.ends_with('/')) config.server.pop_back();
  config.ns = Text(context, "namespace").empty() ? "default" : Text(context, "namespace");
  ASSIGN_OR_RETURN(config.credentials, FindCredentials(user, folder, timing));
  ASSIGN_OR_RETURN(config.tls, FindTls(cluster, user, folder));
  config.proxy = Text(cluster, "proxy-url");
  if (config.proxy.empty()) config.proxy = ProxyFor(config.server, environment);
  return config;
}

}  // namespace

Result<Config> KubeconfigFile(const std::filesystem::path& path, const KubeconfigOptions& options,
                              const Environment& environment, Timing& timing) {
  if (path.string().find(':') != std::string::npos) {
    return InvalidArgument("KUBECONFIG names several files (" + path.string() +
                           "): join them with `kubectl config view --flatten`");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  const auto kubeconfig = api::YamlToJson(text);
  if (!kubeconfig.ok()) return kubeconfig.status().WithContext(path.string());
  if (!kubeconfig->is_object()) return InvalidArgument(path.string() + " is not a kubeconfig file");
  auto config = ReadContext(*kubeconfig, path.parent_path(), options, environment, timing);
  if (!config.ok()) return config.status().WithContext(path.string());
  return config;
}

}  // namespace swarm::kube
