// Trust in an authority that is known by its fingerprint alone, and what goes with it: digests and
// secrets.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace swarm::identity {

/// SHA-256 of `bytes`: 64 lower-case hexadecimal digits.
std::string Sha256(std::string_view bytes);

/// So many random bytes of the system's generator, in hexadecimal digits.
Result<std::string> MakeSecret(int bytes);

/// Sha256 of the first certificate of `text`, in DER. Messages call it `name`.
/// Errors: kInvalidArgument (no certificate in PEM).
Result<std::string> Fingerprint(const std::string& text, const std::string& name);

/// Whether `authority` has signed the first certificate of `text`, which is valid now and may be
/// used by a server and a client. Both are PEM. Errors: kInvalidArgument (no certificate in PEM),
/// kUnauthenticated.
Status CheckSigned(const std::string& text, const std::string& authority);

/// The certificate in `chain` (PEM) that has this fingerprint. A server sends it with its own, so
/// that a client needs to know the fingerprint alone; CheckSigned is up to the caller.
/// Errors: kUnauthenticated (there is none).
Result<std::string> FindByFingerprint(const std::string& chain, const std::string& fingerprint);

}  // namespace swarm::identity
