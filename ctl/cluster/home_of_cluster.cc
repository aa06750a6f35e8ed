#include "ctl/cluster/home_of_cluster.h"

#include <chrono>
#include <vector>

#include "ctl/cluster/home_address.h"
#include "operator/kube/timing/timing.h"

namespace swarm::ctl {
namespace {

constexpr Duration kPatience = std::chrono::minutes(3);
constexpr Duration kLookAgain = std::chrono::seconds(2);

/// Waits for what comes by itself, and says for what.
class Wait {
 public:
  explicit Wait(std::FILE* err) : err_(err) {}

  /// A pause. Error: `missing`, when it has been waited for long enough.
  Status For(const Status& missing) {
    if (kube::SystemTiming().Now() >= until_) return missing;
    if (!told_) std::fprintf(err_, "waiting: %s\n", missing.message().c_str());
    told_ = true;
    kube::SystemTiming().Sleep(kLookAgain, {});
    return Status();
  }

 private:
  std::FILE* const err_;
  const Timepoint until_ = kube::SystemTiming().Now() + kPatience;
  bool told_ = false;
};

Result<std::string> FindHomeAddress(kube::Client& client, const std::string& ns) {
  ASSIGN_OR_RETURN(const kube::ObjectList services,
                   client.List(kube::resources::Services(), {.ns = ns}));
  return HomeAddress(services.Unpack());
}

}  // namespace

Status NobodyExpects(const std::string& ns) {
  return FailedPrecondition("no operator in the namespace " + ns +
                            " expects satellites or machines: install it with"
                            " satellites.enabled=true, and name its namespace (--namespace of"
                            " `swarmctl satellite`, --operator-namespace of `swarmctl token`)");
}

Result<std::string> AwaitHomeAddress(kube::Client& client, const std::string& ns, std::FILE* err) {
  for (Wait wait(err);;) {
    auto found = FindHomeAddress(client, ns);
    if (found.status().code() == StatusCode::kNotFound) return NobodyExpects(ns);
    if (found.status().code() != StatusCode::kUnavailable) return found;
    RETURN_IF_ERROR(wait.For(found.status()));
  }
}

Result<kube::Object> AwaitFromHome(kube::Client& client, const kube::Resource& resource,
                                   const kube::ObjectName& name, std::FILE* err) {
  for (Wait wait(err);;) {
    auto found = client.Get(resource, name);
    if (found.status().code() != StatusCode::kNotFound) return found;
    if (FindHomeAddress(client, name.ns).status().code() == StatusCode::kNotFound) {
      return NobodyExpects(name.ns);
    }
    RETURN_IF_ERROR(
        wait.For(Unavailable("the operator in the namespace " + name.ns + " has not made " +
                             name.name + " yet; see its log if it does not")));
  }
}

}  // namespace swarm::ctl
