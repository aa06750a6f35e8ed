#include "ctl/cluster/job_token_command.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/format/wall_time.h"
#include "base/identity/trust.h"
#include "base/short_time.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/home_of_cluster.h"
#include "operator/kube/client/secret_text.h"
#include "operator/machines/account.h"
#include "operator/machines/admission.h"
#include "operator/names/names.h"
#include "operator/objects/read.h"
#include "operator/satellite/account_secret.h"
#include "worker/enrol/token.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

constexpr int kTokenNameBytes = 4;  // a name for people
constexpr int kSecretBytes = 16;

struct JobOfCluster {
  Cluster cluster;
  objects::JobView view;

  kube::ObjectName secret() const { return {view.ns, names::TokensSecretName(view.name)}; }
};

Result<JobOfCluster> FindJob(const JobTokenOptions& options, std::FILE* err) {
  ASSIGN_OR_RETURN(Cluster cluster, Connect(options.cluster, err, {}));
  const kube::ObjectName name{cluster.ns, options.job};
  auto object = cluster.client->Get(kube::resources::SwarmJobs(), name);
  if (object.status().code() == StatusCode::kNotFound) {
    return NotFound("no folder of a run is called " + options.job + ", and the namespace " +
                    cluster.ns + " has no SwarmJob of this name");
  }
  RETURN_IF_ERROR(object.status());
  ASSIGN_OR_RETURN(objects::JobView view, objects::ReadJob(**object));
  return JobOfCluster{std::move(cluster), std::move(view)};
}

Status CheckPool(const objects::JobView& view, const std::string& pool) {
  const auto& pools = view.job.spec.workers.machinePools;
  if (std::ranges::find(pools, pool, &api::MachinePool::name) != pools.end()) return Status();
  std::string known;
  for (const api::MachinePool& each : pools) known += (known.empty() ? "" : ", ") + each.name;
  return InvalidArgument("the job " + view.name + " has no pool \"" + pool +
                         "\" for machines: name one with --pool; spec.workers.machinePools has " +
                         (known.empty() ? "none yet" : known));
}

/// The account in a Secret. Errors: kFailedPrecondition (it belongs to something else).
Result<machines::Account> ReadAccount(const JobOfCluster& job, const json& secret) {
  if (!kube::IsOwnedBy(secret, job.view.uid)) {
    return FailedPrecondition("the Secret " + job.secret().ToString() +
                              " does not belong to this job; delete it");
  }
  return machines::ParseAccount(kube::SecretText(secret, machines::kAccount));
}

Result<machines::Account> ReadAccount(const JobOfCluster& job) {
  const auto secret = job.cluster.client->Get(kube::resources::Secrets(), job.secret());
  if (secret.status().code() == StatusCode::kNotFound) return machines::Account();
  RETURN_IF_ERROR(secret.status());
  return ReadAccount(job, **secret);
}

Status ChangeAccount(const JobOfCluster& job,
                     const std::function<Status(machines::Account*)>& change) {
  return kube::ChangeSecretText(*job.cluster.client, job.secret(), machines::kAccount,
                                [&](const json& secret) -> Result<std::string> {
                                  ASSIGN_OR_RETURN(machines::Account account,
                                                   ReadAccount(job, secret));
                                  RETURN_IF_ERROR(change(&account));
                                  return machines::ToText(account);
                                });
}

/// Makes the Secret, unless it exists.
Status MakeAccount(const JobOfCluster& job) {
  const json wanted = {
      {"apiVersion", "v1"},
      {"kind", "Secret"},
      {"metadata",
       {{"name", job.secret().name},
        {"namespace", job.view.ns},
        {"labels", {{names::kJobLabel, job.view.name}}},
        {"ownerReferences", json::array({{{"apiVersion", names::kApiVersion},
                                          {"kind", names::kKind},
                                          {"name", job.view.name},
                                          {"uid", job.view.uid}}})}}},
      {"type", "Opaque"},
      {"stringData", {{machines::kAccount, machines::ToText(machines::Account())}}}};
  const Status made = job.cluster.client->Create(kube::resources::Secrets(), wanted).status();
  return made.code() == StatusCode::kAlreadyExists ? Status() : made;
}

Result<std::string> MakeToken(const JobTokenOptions& options, std::FILE* err) {
  ASSIGN_OR_RETURN(const JobOfCluster job, FindJob(options, err));
  RETURN_IF_ERROR(CheckPool(job.view, options.pool));
  kube::Client& client = *job.cluster.client;
  std::string home = options.home;
  if (home.empty()) {
    auto found = AwaitHomeAddress(client, options.operator_namespace, err);
    if (found.status().code() == StatusCode::kPermissionDenied) {
      return found.status().WithContext(
          "where is the operator? Ask for its address, --home HOST:PORT");
    }
    ASSIGN_OR_RETURN(home, std::move(found));
    std::fprintf(err, "machines will dial home at %s\n", home.c_str());
  }
  const kube::ObjectName name{options.operator_namespace, satellite::kHomeConfigMap};
  ASSIGN_OR_RETURN(const kube::Object published,
                   AwaitFromHome(client, kube::resources::ConfigMaps(), name, err));
  const std::string authority = std::string("/data/") + satellite::kAuthorityCertificate;
  ASSIGN_OR_RETURN(const std::string fingerprint,
                   identity::Fingerprint(kube::TextAt(*published, authority.c_str()),
                                         "the authority in the ConfigMap " + name.ToString()));
  ASSIGN_OR_RETURN(const std::string token, identity::MakeSecret(kTokenNameBytes));
  ASSIGN_OR_RETURN(const std::string word, identity::MakeSecret(kSecretBytes));
  const auto expires = api::WholeSeconds(std::chrono::system_clock::now()) +
                       std::chrono::duration_cast<std::chrono::seconds>(options.terms.lifetime);
  RETURN_IF_ERROR(MakeAccount(job));
  RETURN_IF_ERROR(ChangeAccount(job, [&](machines::Account* account) {
    if (account->tokens.size() >= machines::kTokensMax) {
      return ResourceExhausted("the job has " + std::to_string(machines::kTokensMax) +
                               " tokens; revoke those that are not needed");
    }
    account->tokens[token] = {identity::Sha256(word), options.pool, expires, options.terms.uses};
    return Status();
  }));
  return enrol::ToText({home, fingerprint, machines::ToText({job.view.uid, token}), word});
}

/// "good for 3 h and 2 machines", "expired", "used up".
std::string StateOf(const machines::Token& token) {
  const auto left = token.expires - std::chrono::system_clock::now();
  if (left.count() <= 0) return "expired";
  if (token.uses_left == 0) return "used up";
  return "good for " + ShortTime(std::chrono::duration<double>(left).count()) + " and " +
         std::to_string(token.uses_left) + (token.uses_left == 1 ? " machine" : " machines");
}

/// The workers of the machines that have joined with the token.
std::vector<std::string> WorkersOf(const objects::JobView& view, const std::string& token) {
  std::vector<std::string> workers;
  for (const api::MachineStatus& machine : view.status.machines) {
    if (machine.token != token) continue;
    workers.push_back(names::PodName(view.name, names::PodRole::kWorker, machine.ordinal));
  }
  return workers;
}

Status Print(const JobTokenOptions& options, std::FILE* out, std::FILE* err) {
  ASSIGN_OR_RETURN(const JobOfCluster job, FindJob(options, err));
  ASSIGN_OR_RETURN(const machines::Account account, ReadAccount(job));
  for (const auto& [name, token] : account.tokens) {
    const std::vector<std::string> workers = WorkersOf(job.view, name);
    if (options.json) {
      const json object = {
          {"id", name},
          {"pool", token.pool},
          {"expires",
           api::FormatTime(std::chrono::time_point_cast<std::chrono::seconds>(token.expires))},
          {"usesLeft", token.uses_left},
          {"workers", workers}};
      std::fprintf(out, "%s\n", object.dump().c_str());
      continue;
    }
    std::string joined;
    for (const std::string& worker : workers) {
      joined += (joined.empty() ? "; joined with it: " : ", ") + worker;
    }
    std::fprintf(out, "%s  pool %s, %s%s\n", name.c_str(), token.pool.c_str(),
                 StateOf(token).c_str(), joined.c_str());
  }
  if (account.tokens.empty()) {
    std::fprintf(err, "the job has no tokens; `swarmctl token create %s --pool NAME` makes one\n",
                 options.job.c_str());
  }
  return Status();
}

Status Revoke(const JobTokenOptions& options, std::FILE* out, std::FILE* err) {
  ASSIGN_OR_RETURN(const JobOfCluster job, FindJob(options, err));
  const auto ordinal = machines::OrdinalOf(job.view.name, options.name);
  const auto& listed = job.view.status.machines;
  const bool is_machine =
      ordinal && std::ranges::find(listed, *ordinal, &api::MachineStatus::ordinal) != listed.end();
  const Status unknown =
      NotFound("the job " + options.job + " has no token and no machine " + options.name +
               "; `swarmctl token list " + options.job + "` names them");
  const Status changed = ChangeAccount(job, [&](machines::Account* account) {
    if (is_machine) {
      account->revoked.insert(*ordinal);
      return Status();
    }
    return account->tokens.erase(options.name) > 0 ? Status() : unknown;
  });
  if (changed.code() == StatusCode::kNotFound) return unknown;
  RETURN_IF_ERROR(changed);
  std::fprintf(out, "%s is revoked; home puts out its machines within a minute\n",
               options.name.c_str());
  return Status();
}

ExitCode Ended(const Status& status, std::FILE* err) {
  return status.ok() ? ExitCode::kOk : Refuse(status, err);
}

}  // namespace

ExitCode CreateJobToken(const JobTokenOptions& options, std::FILE* out, std::FILE* err) {
  const auto token = MakeToken(options, err);
  if (!token.ok()) return Refuse(token.status(), err);
  std::fprintf(out, "swarmctl join %s\n", token->c_str());
  return ExitCode::kOk;
}

ExitCode ListJobTokens(const JobTokenOptions& options, std::FILE* out, std::FILE* err) {
  return Ended(Print(options, out, err), err);
}

ExitCode RevokeJobToken(const JobTokenOptions& options, std::FILE* out, std::FILE* err) {
  return Ended(Revoke(options, out, err), err);
}

}  // namespace swarm::ctl
