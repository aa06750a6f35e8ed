// The Secret in which home keeps its authority for satellites, and its account of them.
#pragma once

#include <functional>
#include <string>

#include "operator/kube/client/client.h"
#include "operator/kube/client/secret_text.h"
#include "operator/satellite/account.h"

namespace swarm::satellite {

/// Its name, in the operator's namespace, and its keys.
inline constexpr const char* kHomeSecret = "swarm-satellites";
/// A ConfigMap beside it, for those who may not read Secrets there. It has kAuthorityCertificate.
inline constexpr const char* kHomeConfigMap = "swarm-home";
inline constexpr const char* kAuthorityCertificate = "ca.crt";
inline constexpr const char* kAuthorityKey = "ca.key";
inline constexpr const char* kAuthorityUid = "uid";
inline constexpr const char* kAccount = "account.json";

/// Errors: those of the client; kInvalidArgument (the Secret has no account).
Result<Account> ReadAccount(kube::Client& client, const kube::ObjectName& secret);

/// Reads the account in the Secret, lets `change` change it, and writes it unless another client
/// has done so in between, when it begins again. Errors: those of the client and of `change`.
Status ChangeAccount(kube::Client& client, const kube::ObjectName& secret,
                     const std::function<Status(Account*)>& change);

}  // namespace swarm::satellite
