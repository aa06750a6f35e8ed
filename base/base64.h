// Base64 of RFC 4648, as Kubernetes' Secrets and kubeconfig files have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swarm {

/// With padding, without line breaks.
std::string EncodeBase64(std::string_view bytes);

/// Ignores line breaks and spaces. None if `text` is not base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace swarm
