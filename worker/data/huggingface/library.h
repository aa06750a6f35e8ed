// libswarm_huggingface.so, opened at run time.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "worker/data/huggingface/swarm_huggingface.h"

namespace swarm::data {

/// The functions of the module.
struct HuggingFaceLibrary {
  decltype(&swarm_huggingface_open) open;
  decltype(&swarm_huggingface_close) close;
  decltype(&swarm_huggingface_vocabulary) vocabulary;
  decltype(&swarm_huggingface_id_of) id_of;
  decltype(&swarm_huggingface_encode) encode;
  decltype(&swarm_huggingface_decode) decode;
  decltype(&swarm_huggingface_compile) compile;
  decltype(&swarm_huggingface_close_template) close_template;
  decltype(&swarm_huggingface_render) render;
  decltype(&swarm_huggingface_free_text) free_text;
  decltype(&swarm_huggingface_free_ids) free_ids;

  /// Opens the module with the first call. Any thread. Errors: those of FindInModule.
  static Result<const HuggingFaceLibrary*> Open();

  static SwarmHuggingFaceView View(std::string_view text) { return {text.data(), text.size()}; }
  /// Copies a text and frees it.
  std::string Take(SwarmHuggingFaceText text) const;
  /// Of a code other than Ok; frees the error. kInternal (the library has a fault),
  /// kInvalidArgument.
  Status ToStatus(SwarmHuggingFaceCode code, SwarmHuggingFaceText error) const;
};

}  // namespace swarm::data
