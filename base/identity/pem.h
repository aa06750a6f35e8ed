// Reads and checks certificates and keys in PEM.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace swarm::identity {

/// A certificate (with its chain, if any) and its private key, both in PEM.
struct KeyPair {
  std::string certificate;
  std::string key;
  bool operator==(const KeyPair&) const = default;
};

/// What a certificate says.
struct CertificateFacts {
  std::vector<std::string> uris;  ///< of the subject alternative name
  bool is_authority = false;
  std::chrono::system_clock::time_point not_before, not_after;
};

/// The first certificate of `text`. Messages call it `name`: a path, or a key of a Secret.
/// Errors: kInvalidArgument (no certificate in PEM).
Result<CertificateFacts> ReadCertificate(const std::string& text, const std::string& name);

/// Whether `pair` is a certificate and its own key, without a password.
/// Errors: kInvalidArgument (not PEM, or the key of another certificate).
Status CheckPair(const KeyPair& pair, const std::string& certificate_name,
                 const std::string& key_name);

}  // namespace swarm::identity
