#include "worker/protocol/replica/copies.h"

#include <string>
#include <utility>

namespace swarm::protocol {

Actions Copies::OnWriteCheckpoint(const WriteCheckpoint& request) {
  if (!standing_.WhyRefuseControl(request.term, request.generation).empty()) return {};
  if (IsHere(request.version)) return {action::TakeCheckpoint{request}};
  if (request.version > standing_.version) {
    checkpoints_.push_back(request);
    return {};
  }
  return {action::Tell{CheckpointWritten{request.generation,
                                         request.version,
                                         standing_.stage(),
                                         "version " + std::to_string(request.version.value) +
                                             " is gone; this worker holds version " +
                                             std::to_string(standing_.version.value),
                                         {},
                                         request.weights,
                                         request.moments}}};
}

Actions Copies::OnPinState(const PinState& request) {
  if (!standing_.WhyRefuseControl(request.term, request.generation).empty()) return {};
  if (IsHere(request.version)) return {action::PinCopy{request}};
  if (request.version > standing_.version) {
    pins_.push_back(request);
    return {};
  }
  return {action::Tell{StatePinned{
      request.generation,
      request.version,
      {},
      "this worker holds version " + std::to_string(standing_.version.value) + " already"}}};
}

Actions Copies::OnUnpinState(const UnpinState& request) {
  if (!standing_.WhyRefuseControl(request.term, request.generation).empty()) return {};
  std::erase_if(pins_, [&](const PinState& pin) { return pin.version == request.version; });
  return {action::UnpinCopy{request.version}};
}

Actions Copies::OnVersion() {
  Actions actions;
  for (const WriteCheckpoint& request : std::exchange(checkpoints_, {})) {
    Append(actions, OnWriteCheckpoint(request));
  }
  for (const PinState& request : std::exchange(pins_, {})) Append(actions, OnPinState(request));
  return actions;
}

void Copies::Clear() {
  checkpoints_.clear();
  pins_.clear();
}

}  // namespace swarm::protocol
