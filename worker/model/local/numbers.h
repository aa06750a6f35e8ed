// Float32 numbers of all parameters of a stage, in memory or in a mapped file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/layout/parameters.h"

namespace swarm::model {

/// Movable. One thread writes them.
class Numbers {
 public:
  /// No groups.
  Numbers() = default;
  /// Zeros, in a scratch file in `folder`, or if that is empty, in memory. Errors: as
  /// tier::MapScratchFile.
  static Result<Numbers> Make(const std::vector<ParameterGroup>& groups, const std::string& folder);
  Numbers(Numbers&&) = default;
  Numbers& operator=(Numbers&&) = default;

  bool empty() const { return groups_.empty(); }
  std::size_t groups() const { return groups_.size(); }
  /// Those of a group in its flat order; of a parameter.
  std::span<float> Of(std::size_t group) const;
  std::span<float> Of(const ParameterSlot& slot) const;
  /// A group's bytes, which live as long as the result.
  Bytes Share(std::size_t group) const;
  /// Whether a result of Share lives.
  bool IsShared() const;

  void CopyFrom(const Numbers& other);
  /// this += factor * other.
  void Add(const Numbers& other, float factor);

 private:
  struct Group {
    std::shared_ptr<std::byte> memory;
    std::uint64_t count = 0;
  };
  std::vector<Group> groups_;
};

}  // namespace swarm::model
