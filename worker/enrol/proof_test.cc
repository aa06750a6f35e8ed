#include "worker/enrol/proof.h"

#include <gmock/gmock.h>

#include <map>

namespace swarm::enrol {
namespace {

Result<std::optional<ProofPlace>> Read(const std::map<std::string, std::string>& variables) {
  return ReadProofPlace([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(ProofTest, APodIsToldWhereToProveItself) {
  const auto read = Read({{"SWARM_PROOF_HOME", "203.0.113.9:7443"},
                          {"SWARM_PROOF_FINGERPRINT", "ab12"},
                          {"SWARM_PROOF_CLUSTER", "west"},
                          {"SWARM_PROOF_TOKEN_FILE", "/etc/swarmjob/proof/token"}});
  ASSERT_TRUE(read.ok() && *read);
  EXPECT_EQ(**read, (ProofPlace{"203.0.113.9:7443", "ab12", "west", "/etc/swarmjob/proof/token"}));
}

TEST(ProofTest, WhoIsToldNothingHasItsCertificateFromElsewhere) {
  const auto read = Read({{"HOME", "/"}});
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(*read);
}

TEST(ProofTest, APodThatIsToldHalfOfItSaysWhatIsMissing) {
  const auto read = Read({{"SWARM_PROOF_HOME", "a:1"}, {"SWARM_PROOF_CLUSTER", "west"}});
  EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(read.status().message(),
              testing::HasSubstr("SWARM_PROOF_FINGERPRINT, SWARM_PROOF_TOKEN_FILE"));
}

}  // namespace
}  // namespace swarm::enrol
