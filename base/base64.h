// Base64 of RFC 4648, as Kubernetes' Secrets and kubeconfig files have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swarm {

/// With padding, without line breaks.
std::string EncodeBase64(std::string_view bytes);

/// Line breaks and spaces are passed over. Nothing if the text is none.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace swarm
