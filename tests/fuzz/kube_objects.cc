// Kubernetes' objects with any content: each is read, or refused with a reason.
#include <nlohmann/json.hpp>

#include "operator/objects/read.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  const std::uint8_t kind = input.Byte() % 3;
  const auto object = nlohmann::json::parse(input.rest(), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return 0;
  switch (kind) {
    case 0:
      if (const auto pod = objects::ReadPod(object)) {
        fuzz::Require(!pod->name.empty() && !pod->uid.empty(), "a pod has a name and a UID");
      }
      break;
    case 1:
      (void)objects::ReadNode(object);
      break;
    default: {
      const auto job = objects::ReadJob(object);
      fuzz::Require(job.ok() || !job.status().message().empty(), "a refusal has a reason");
    }
  }
  return 0;
}
