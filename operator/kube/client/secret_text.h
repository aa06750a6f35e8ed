// A text that is kept in a Secret and that several clients may change.
#pragma once

#include <functional>
#include <string>

#include "operator/kube/client/client.h"

namespace swarm::kube {

/// The text in a Secret under this key; empty: it has none.
std::string SecretText(const nlohmann::json& secret, const std::string& key);

/// Gives `change` the Secret as it is, writes the text that `change` returns under `key`, if it is
/// another one, unless another client has written the Secret in between: then it begins again, a
/// few times. Errors: those of the client (kAborted: others keep writing it) and of `change`.
Status ChangeSecretText(
    Client& client, const ObjectName& secret, const std::string& key,
    const std::function<Result<std::string>(const nlohmann::json& secret)>& change);

}  // namespace swarm::kube
