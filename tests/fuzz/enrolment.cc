// What a machine that is not known yet shows home, and what its user gives it: any bytes are a join
// token or a request for a certificate, or an error.
#include <chrono>

#include "base/base64.h"
#include "base/identity/authority.h"
#include "base/identity/pem.h"
#include "tests/fuzz/input.h"
#include "worker/enrol/token.h"

namespace swarm::fuzz {
namespace {

void ReadToken(const std::string& text) {
  const auto token = enrol::ParseJoinToken(text);
  if (!token.ok()) {
    Require(token.status().code() == StatusCode::kInvalidArgument, "a bad token is an argument");
    return;
  }
  const auto again = enrol::ParseJoinToken(enrol::ToText(*token));
  Require(again.ok() && *again == *token, "a token that was read can be written");
}

void SignRequest(const std::string& request) {
  static const auto authority = identity::JobAuthority::Create("7");
  Require(authority.ok(), "an authority can be made");
  const std::string uri = identity::WorkerUri("7", "joined-1");
  const auto signed_one = authority->Sign(request, "joined-1", uri, std::chrono::seconds(60));
  if (!signed_one.ok()) return;
  const auto facts = identity::ReadCertificate(*signed_one, "certificate");
  Require(facts.ok() && !facts->is_authority, "what was signed is no authority's");
  Require(facts->uris == std::vector{uri}, "home chooses the identity, whatever was asked for");
}

}  // namespace
}  // namespace swarm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  const std::uint8_t kind = input.Byte();
  const std::string rest(input.rest());
  if (kind == 't') fuzz::ReadToken(rest);
  if (kind == 'p') fuzz::SignRequest(rest);
  if (kind == 'd') {  // in DER: a fuzzer does not find base64
    std::string lines = EncodeBase64(rest);
    for (std::size_t at = 64; at < lines.size(); at += 65) lines.insert(at, 1, '\n');
    fuzz::SignRequest("-----BEGIN CERTIFICATE REQUEST-----\n" + lines +
                      "\n-----END CERTIFICATE REQUEST-----\n");
  }
  return 0;
}
