// Which stage serves which options.
#include <utility>

#include "worker/model/decoder/decoder_stage.h"
#include "worker/model/local/local_stage.h"
#include "worker/model/stage.h"
#include "worker/model/swap/swap_stage.h"

namespace swarm::model {

Result<std::unique_ptr<Stage>> Stage::Create(const StageOptions& options) {
  if (options.microbatches < 1 || options.threads < 1) {
    return InvalidArgument("stage: microbatches and threads must be positive");
  }
  if (options.local.inner_steps > 0) return MakeLocalStage(options);
  if (options.residency == api::Residency::kSwap) return MakeSwapStage(options);
  ASSIGN_OR_RETURN(DecoderStage::Ways ways, OpenWays(options));
  return MakeDecoderStage(options, std::move(ways));
}

}  // namespace swarm::model
