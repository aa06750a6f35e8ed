#include "operator/satellite/account_secret.h"

#include <nlohmann/json.hpp>

namespace swarm::satellite {

Result<Account> ReadAccount(kube::Client& client, const kube::ObjectName& secret) {
  ASSIGN_OR_RETURN(const kube::Object read, client.Get(kube::resources::Secrets(), secret));
  return ParseAccount(kube::SecretText(*read, kAccount));
}

Status ChangeAccount(kube::Client& client, const kube::ObjectName& secret,
                     const std::function<Status(Account*)>& change) {
  return kube::ChangeSecretText(
      client, secret, kAccount, [&](const nlohmann::json& read) -> Result<std::string> {
        ASSIGN_OR_RETURN(Account account, ParseAccount(kube::SecretText(read, kAccount)));
        RETURN_IF_ERROR(change(&account));
        return ToText(account);
      });
}

}  // namespace swarm::satellite
