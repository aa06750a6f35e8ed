#include "worker/model/attention.h"

#include <algorithm>

#include "worker/model/arithmetic/decoder.h"
#include "worker/model/arithmetic/half.h"
#include "worker/model/open_device.h"

namespace swarm::model {

Result<std::string> AttentionKernels(const api::DecoderConfig& config, api::Precision precision,
                                     const std::string& device) {
  const auto within_window = [](const api::LayerOptions& layer) { return layer.window > 0; };
  const bool some = std::ranges::any_of(config.layers, within_window);
  const bool all = some && std::ranges::all_of(config.layers, within_window);
  std::string names;
  ASSIGN_OR_RETURN(const at::Device place, OpenDevice(device));
  try {
    for (const bool window : {false, true}) {
      if (window ? !some : all) continue;
      if (!names.empty()) names += '/';
      names += AttentionKernel(config, window, MatrixType(precision), place);
    }
  } catch (const c10::Error& error) {
    return Unavailable("device " + device + ": " + error.what_without_backtrace());
  }
  return names;
}

}  // namespace swarm::model
