// Reads TensorBoard's event files as TensorBoard does, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/hash.h"

namespace swarm::trainer::testing {

/// Values by step, by tag.
using Curves = std::map<std::string, std::map<std::uint64_t, float>>;

/// A protobuf message, field by field.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  bool Next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = Varint();
    field = key >> 3;
    switch (key & 7) {
      case 0:
        number = Varint();
        return true;
      case 1:
        number = Fixed(8);
        return true;
      case 5:
        number = Fixed(4);
        return true;
      default: {
        const std::uint64_t size = Varint();
        bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
    }
  }

  std::uint64_t field = 0, number = 0;
  std::string_view bytes;

 private:
  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::uint64_t Fixed(std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return value;
  }

  std::string_view rest_;
};

inline std::uint32_t UnmaskedCrc(std::uint32_t masked) {
  return std::rotl(masked - 0xa282ead8, 15);
}

/// Adds the points of one event.
inline void ReadEvent(std::string_view event, Curves* curves) {
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, float>> values;
  bool begins = false;
  for (FieldReader fields(event); fields.Next();) {
    if (fields.field == 2) step = fields.number;
    if (fields.field == 7) begins = true;
    if (fields.field != 5) continue;
    for (FieldReader summary(fields.bytes); summary.Next();) {
      values.emplace_back();
      for (FieldReader value(summary.bytes); value.Next();) {
        if (value.field == 1) values.back().first = value.bytes;
        if (value.field == 2)
          values.back().second = std::bit_cast<float>(static_cast<std::uint32_t>(value.number));
      }
    }
  }
  if (begins) {
    for (auto& [tag, curve] : *curves) curve.erase(curve.lower_bound(step), curve.end());
  }
  for (const auto& [tag, value] : values) {
    EXPECT_TRUE((*curves)[tag].emplace(step, value).second)
        << tag << " has step " << step << " twice";
  }
}

/// The curves of all event files of a folder, in the order of their names. Fails the test for a
/// checksum that is wrong, and for a step that is there twice without the start of a session.
inline Curves ReadEventFolder(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().find("tfevents") != std::string::npos) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Curves curves;
  for (const std::string& path : paths) {
    const std::string content = *ReadFile(path);
    for (std::string_view rest = content; !rest.empty();) {
      std::uint64_t size = 0;
      std::uint32_t length_crc = 0, crc = 0;
      std::memcpy(&size, rest.data(), 8);
      std::memcpy(&length_crc, rest.data() + 8, 4);
      const std::string_view message = rest.substr(12, size);
      std::memcpy(&crc, rest.data() + 12 + size, 4);
      const auto crc_of = [](std::string_view bytes) {
        return Crc32c(std::as_bytes(std::span(bytes)));
      };
      EXPECT_EQ(UnmaskedCrc(length_crc), crc_of(rest.substr(0, 8))) << path;
      EXPECT_EQ(UnmaskedCrc(crc), crc_of(message)) << path;
      ReadEvent(message, &curves);
      rest.remove_prefix(12 + size + 4);
    }
  }
  return curves;
}

}  // namespace swarm::trainer::testing
