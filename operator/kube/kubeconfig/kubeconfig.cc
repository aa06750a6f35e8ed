#include "operator/kube/kubeconfig/kubeconfig.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/format/yaml.h"
#include "base/base64.h"

namespace swarm::kube {
namespace {

using nlohmann::json;

/// Cluster fields for a plugin stand in an extension of this name.
constexpr const char* kPluginExtension = "client.authentication.k8s.io/exec";

/// A file's content.
struct Parsed {
  std::string path;
  json content;
};

/// A cluster, a user or a context, and the file that it is from.
struct Entry {
  json value;
  std::string path;
  std::string what;  ///< "user 'me' in FILE", for errors
};

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool Flag(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

bool Has(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

/// The elements of a list that are objects.
std::vector<json> Objects(const json& object, const char* key) {
  const auto found = object.find(key);
  std::vector<json> objects;
  if (found == object.end() || !found->is_array()) return objects;
  for (const json& element : *found) {
    if (element.is_object()) objects.push_back(element);
  }
  return objects;
}

/// `path` as seen from the folder of `file`.
std::string Resolve(const std::string& file, const std::string& path) {
  if (path.empty() || path.starts_with('/')) return path;
  return file.substr(0, file.rfind('/') + 1) + path;  // without '/': 0 characters
}

Result<std::vector<Parsed>> Parse(const std::vector<KubeconfigText>& files) {
  std::vector<Parsed> parsed;
  for (const KubeconfigText& file : files) {
    auto content = api::YamlToJson(file.text);
    if (!content.ok()) return content.status().WithContext(file.path);
    if (content->is_null()) continue;  // an empty file
    if (!content->is_object()) return InvalidArgument(file.path + " is not a kubeconfig file");
    parsed.push_back({file.path, *std::move(content)});
  }
  return parsed;
}

std::string PathsOf(const std::vector<KubeconfigText>& files) {
  std::string paths;
  for (const KubeconfigText& file : files) paths += (paths.empty() ? "" : ", ") + file.path;
  return paths;
}

/// The first {name: NAME, MEMBER: {...}} in the lists `MEMBERs` of the files.
Result<Entry> Find(const std::vector<Parsed>& files, const std::string& member,
                   const std::string& name) {
  std::string names;
  for (const Parsed& file : files) {
    for (const json& entry : Objects(file.content, (member + "s").c_str())) {
      if (Text(entry, "name") == name) {
        const auto value = entry.find(member);
        const bool filled = value != entry.end() && value->is_object();
        return Entry{filled ? *value : json::object(), file.path,
                     member + " '" + name + "' in " + file.path};
      }
      names += (names.empty() ? "" : ", ") + Text(entry, "name");
    }
  }
  return InvalidArgument("there is no " + member + " named '" + name + "'; " +
                         (names.empty() ? "there are none" : "there are: " + names));
}

/// `key` is "certificate-authority" for the fields certificate-authority-data and
/// certificate-authority.
Result<PemPlace> FindPem(const Entry& owner, const std::string& key) {
  if (const std::string data = Text(owner.value, (key + "-data").c_str()); !data.empty()) {
    auto decoded = DecodeBase64(data);
    if (!decoded) return InvalidArgument(key + "-data is not base64");
    return PemPlace{*std::move(decoded), ""};
  }
  return PemPlace{"", Resolve(owner.path, Text(owner.value, key.c_str()))};
}

Result<KubeCluster> ReadCluster(const Entry& entry) {
  KubeCluster cluster;
  cluster.server = Text(entry.value, "server");
  if (!cluster.server.starts_with("https://") && !cluster.server.starts_with("http://")) {
    return InvalidArgument("the server '" + cluster.server + "' is not an https:// URL");
  }
  while (cluster.server.ends_with('/')) cluster.server.pop_back();
  cluster.tls_server_name = Text(entry.value, "tls-server-name");
  cluster.proxy = Text(entry.value, "proxy-url");
  cluster.insecure = Flag(entry.value, "insecure-skip-tls-verify");
  ASSIGN_OR_RETURN(cluster.authority, FindPem(entry, "certificate-authority"));
  for (const json& extension : Objects(entry.value, "extensions")) {
    if (Text(extension, "name") != kPluginExtension || !Has(extension, "extension")) continue;
    cluster.plugin_config = extension["extension"].dump();
  }
  return cluster;
}

Result<ExecPlugin> ReadPlugin(const json& exec, const std::string& file) {
  if (!exec.is_object() || Text(exec, "command").empty()) {
    return InvalidArgument("exec has no command");
  }
  ExecPlugin plugin;
  plugin.api_version = Text(exec, "apiVersion");
  plugin.command = Text(exec, "command");
  if (plugin.command.find('/') != std::string::npos) plugin.command = Resolve(file, plugin.command);
  plugin.interactive_mode = Text(exec, "interactiveMode");
  plugin.install_hint = Text(exec, "installHint");
  plugin.wants_cluster = Flag(exec, "provideClusterInfo");
  if (Has(exec, "args")) {
    for (const json& argument : exec["args"]) {
      if (!argument.is_string()) return InvalidArgument("exec.args has what is not a string");
      plugin.arguments.push_back(argument.get<std::string>());
    }
  }
  for (const json& variable : Objects(exec, "env")) {
    plugin.environment[Text(variable, "name")] = Text(variable, "value");
  }
  return plugin;
}

/// What to do instead of an auth-provider, which kubectl has dropped or is about to.
std::string InsteadOfProvider(const std::string& name) {
  if (name == "gcp") return "write the entry anew with `gcloud container clusters get-credentials`";
  if (name == "azure") return "convert the entry with `kubelogin convert-kubeconfig`";
  return "use an exec plugin, or the token of a service account (`kubectl create token`)";
}

Status CheckUser(const json& user) {
  if (Has(user, "auth-provider")) {
    const json& provider = user["auth-provider"];
    const std::string name = provider.is_object() ? Text(provider, "name") : "";
    return InvalidArgument("auth-provider '" + name +
                           "' is not supported: " + InsteadOfProvider(name));
  }
  if (Has(user, "username")) {
    return InvalidArgument(
        "passwords are not supported, and API servers no longer take them; use the token of a"
        " service account (`kubectl create token`)");
  }
  for (const char* field : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    if (!Has(user, field)) continue;
    return InvalidArgument(std::string("acting as another user ('") + field +
                           "') is not supported: use that user's own credentials");
  }
  return Status();
}

Result<KubeUser> ReadUser(const Entry& entry) {
  RETURN_IF_ERROR(CheckUser(entry.value));
  KubeUser user;
  user.token = Text(entry.value, "token");
  user.token_file = Resolve(entry.path, Text(entry.value, "tokenFile"));
  ASSIGN_OR_RETURN(user.certificate, FindPem(entry, "client-certificate"));
  ASSIGN_OR_RETURN(user.key, FindPem(entry, "client-key"));
  if (user.certificate.empty() != user.key.empty()) {
    return InvalidArgument("client-certificate and client-key must be given together");
  }
  if (Has(entry.value, "exec")) {
    ASSIGN_OR_RETURN(user.plugin, ReadPlugin(entry.value["exec"], entry.path));
  }
  return user;
}

std::string CurrentContext(const std::vector<Parsed>& files) {
  for (const Parsed& file : files) {
    if (std::string name = Text(file.content, "current-context"); !name.empty()) return name;
  }
  return "";
}

/// The entries of a context, before their fields are read.
struct Entries {
  Entry context, cluster, user;
};

Result<Entries> Choose(const std::vector<Parsed>& files, const std::string& name) {
  if (name.empty()) {
    return InvalidArgument("no current-context is set: name a context with --context");
  }
  Entries entries;
  ASSIGN_OR_RETURN(entries.context, Find(files, "context", name));
  const json& context = entries.context.value;
  ASSIGN_OR_RETURN(entries.cluster, Find(files, "cluster", Text(context, "cluster")));
  ASSIGN_OR_RETURN(entries.user, Find(files, "user", Text(context, "user")));
  return entries;
}

}  // namespace

Result<KubeContext> ChooseContext(const std::vector<KubeconfigText>& files,
                                  const std::string& context) {
  ASSIGN_OR_RETURN(const std::vector<Parsed> parsed, Parse(files));
  const auto entries = Choose(parsed, context.empty() ? CurrentContext(parsed) : context);
  if (!entries.ok()) return entries.status().WithContext(PathsOf(files));
  KubeContext chosen;
  chosen.ns = Text(entries->context.value, "namespace");
  if (chosen.ns.empty()) chosen.ns = "default";
  auto cluster = ReadCluster(entries->cluster);
  if (!cluster.ok()) return cluster.status().WithContext(entries->cluster.what);
  auto user = ReadUser(entries->user);
  if (!user.ok()) return user.status().WithContext(entries->user.what);
  chosen.cluster = *std::move(cluster);
  chosen.user = *std::move(user);
  return chosen;
}

}  // namespace swarm::kube
