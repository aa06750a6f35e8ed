#include "worker/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace swarm::checkpoint {
namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kRankMax = 32;
constexpr std::string_view kMetadataName = "__metadata__";

struct Dtype {
  std::string_view name;
  std::size_t bytes;
  std::optional<ElementType> type;
};
constexpr std::array<Dtype, 15> kDtypes = {{{"F32", 4, ElementType::kF32},
                                            {"BF16", 2, ElementType::kBF16},
                                            {"F16", 2, ElementType::kF16},
                                            {"I64", 8, ElementType::kI64},
                                            {"F64", 8, {}},
                                            {"I32", 4, {}},
                                            {"I16", 2, {}},
                                            {"I8", 1, {}},
                                            {"U64", 8, {}},
                                            {"U32", 4, {}},
                                            {"U16", 2, {}},
                                            {"U8", 1, {}},
                                            {"BOOL", 1, {}},
                                            {"F8_E4M3", 1, {}},
                                            {"F8_E5M2", 1, {}}}};

const Dtype* FindDtype(std::string_view name) {
  const auto at = std::find_if(kDtypes.begin(), kDtypes.end(),
                               [&](const Dtype& dtype) { return dtype.name == name; });
  return at == kDtypes.end() ? nullptr : &*at;
}

std::string_view DtypeName(ElementType type) {
  return std::find_if(kDtypes.begin(), kDtypes.end(),
                      [&](const Dtype& dtype) { return dtype.type == type; })
      ->name;
}

// Receives the header's JSON event by event and accepts only the format's own shape, so that
// neither nesting nor duplicate keys can hide in a document tree.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string error;

  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return Refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Refuse("a fraction"); }
  bool binary(binary_t&) override { return Refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return Refuse("a number");
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return Refuse("a number above 2^63");
    if (numbers_.size() == kRankMax) return Refuse("an array of more than 32 numbers");
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (!header.metadata.emplace(key_, value).second) return Refuse("a key twice");
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return Refuse("a string");
    entry_.dtype = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kRoot;
      return true;
    }
    if (place_ != Place::kRoot) return Refuse("an object");
    place_ = name_ == kMetadataName ? Place::kMetadata : Place::kTensor;
    entry_ = {};
    seen_.clear();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kRoot) {
      place_ = Place::kEnd;
      return true;
    }
    if (place_ == Place::kTensor) {
      if (seen_.size() != 3) return Refuse("not all of dtype, shape and data_offsets");
      header.tensors[name_] = std::move(entry_);
    }
    place_ = Place::kRoot;
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::kRoot) {
      name_ = value;
      return names_.insert(value).second || Refuse("a name twice");
    }
    key_ = value;
    if (place_ == Place::kMetadata) return true;
    if (value != "dtype" && value != "shape" && value != "data_offsets")
      return Refuse("key " + value);
    return seen_.insert(value).second || Refuse("a key twice");
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Refuse("an array");
    place_ = Place::kArray;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    if (key_ == "shape") {
      entry_.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) return Refuse("data_offsets that are not two");
    entry_.begin = static_cast<std::uint64_t>(numbers_[0]);
    entry_.end = static_cast<std::uint64_t>(numbers_[1]);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error = "the header is no JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  enum class Place { kStart, kRoot, kMetadata, kTensor, kArray, kEnd };

  bool Refuse(const std::string& what) {
    error = "the header holds " + what + " where none may be, near tensor \"" + name_ + "\"";
    return false;
  }

  Place place_ = Place::kStart;
  std::string name_;  // of the tensor
  std::string key_;   // within it
  std::set<std::string> names_;
  std::set<std::string> seen_;
  SafetensorsHeader::Entry entry_;
  std::vector<std::int64_t> numbers_;
};

Status CheckEntry(const std::string& name, SafetensorsHeader::Entry& entry) {
  const Dtype* dtype = FindDtype(entry.dtype);
  if (dtype == nullptr) return DataLoss("tensor " + name + ": no dtype \"" + entry.dtype + "\"");
  entry.type = dtype->type;
  const auto bytes = ComputeTensorBytes(entry.shape, dtype->bytes);
  if (!bytes.ok()) return DataLoss("tensor " + name + ": " + bytes.status().message());
  if (entry.begin > entry.end || entry.end - entry.begin != *bytes) {
    return DataLoss("tensor " + name + ": its shape needs " + std::to_string(*bytes) +
                    " bytes, its offsets are " + std::to_string(entry.begin) + " and " +
                    std::to_string(entry.end));
  }
  return {};
}

// The tensors must cover the data, each byte once.
Status CheckCover(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, entry] : header.tensors) ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) {
      return DataLoss("tensors overlap or leave a gap at byte " +
                      std::to_string(std::min(begin, at)) + " of the data");
    }
    at = end;
  }
  if (at != data_bytes) {
    return DataLoss("the tensors need " + std::to_string(at) + " bytes of data, the file has " +
                    std::to_string(data_bytes));
  }
  return {};
}

Bytes Join(std::span<const Bytes> pieces) {
  std::size_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  return Bytes::Make(size, [&](std::byte* out) {
    for (const Bytes& piece : pieces) {
      if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    }
  });
}

Bytes EncodeHeader(std::string json) {
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string prefix(kPrefixBytes, '\0');
  const std::uint64_t size = json.size();
  std::memcpy(prefix.data(), &size, kPrefixBytes);
  return Bytes::Copy(prefix + json);
}

}  // namespace

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::uint64_t data_bytes) {
  if (json.empty() || json[0] != '{') return DataLoss("the header does not begin with {");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return DataLoss(reader.error);
  for (auto& [name, entry] : reader.header.tensors) RETURN_IF_ERROR(CheckEntry(name, entry));
  RETURN_IF_ERROR(CheckCover(reader.header, data_bytes));
  return std::move(reader.header);
}

SafetensorsFile::SafetensorsFile(SafetensorsHeader header, Bytes data)
    : header_(std::make_shared<const SafetensorsHeader>(std::move(header))),
      data_(std::move(data)) {}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : header_->tensors) names.push_back(name);
  return names;
}

Result<NamedTensor> SafetensorsFile::Lookup(const std::string& name) const {
  const auto at = header_->tensors.find(name);
  if (at == header_->tensors.end()) return NotFound("no tensor " + name);
  const SafetensorsHeader::Entry& entry = at->second;
  if (!entry.type) return Unimplemented("tensor " + name + " is " + entry.dtype);
  Bytes data = data_.Slice(entry.begin, entry.end - entry.begin);
  if (reinterpret_cast<std::uintptr_t>(data.data()) % ElementBytes(*entry.type) != 0) {
    data = Bytes::Copy(data.data(), data.size());
  }
  return NamedTensor{name, *entry.type, entry.shape, std::move(data)};
}

Result<SafetensorsFile> ReadSafetensors(const Bytes& file) {
  if (file.size() < kPrefixBytes) {
    return DataLoss("a safetensors file of " + std::to_string(file.size()) + " bytes is truncated");
  }
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), kPrefixBytes);
  const std::uint64_t rest = file.size() - kPrefixBytes;
  if (size > kSafetensorsHeaderMax || size > rest) {
    return DataLoss("a safetensors header of " + std::to_string(size) + " bytes in a file of " +
                    std::to_string(file.size()));
  }
  const std::string_view json = file.text().substr(kPrefixBytes, size);
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(json, rest - size));
  return SafetensorsFile(std::move(header), file.Slice(kPrefixBytes + size, rest - size));
}

Result<SafetensorsPlan> PlanSafetensors(std::span<const NamedTensor> tensors,
                                        const Metadata& metadata) {
  SafetensorsPlan plan;
  std::vector<const NamedTensor*>& order = plan.order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return ElementBytes(a->type) > ElementBytes(b->type);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataName] = metadata;
  std::set<std::string_view> names = {kMetadataName};
  std::uint64_t at = 0;
  for (const NamedTensor* tensor : order) {
    if (!names.insert(tensor->name).second) {
      return InvalidArgument("tensor name \"" + tensor->name + "\" is reserved or there twice");
    }
    const auto bytes = ComputeTensorBytes(tensor->shape, ElementBytes(tensor->type));
    if (!bytes.ok()) return bytes.status().WithContext("tensor " + tensor->name);
    const bool fits = tensor->elsewhere != nullptr || *bytes == tensor->data.size();
    if (!fits || tensor->shape.size() > kRankMax) {
      return InvalidArgument("tensor " + tensor->name + ": its data does not fit its shape");
    }
    header.push_back({tensor->name,
                      {{"dtype", DtypeName(tensor->type)},
                       {"shape", tensor->shape},
                       {"data_offsets", {at, at + *bytes}}}});
    at += *bytes;
  }
  try {
    plan.header = EncodeHeader(header.dump());
  } catch (const nlohmann::json::exception&) {
    return InvalidArgument("a tensor name or the metadata is not UTF-8");
  }
  if (plan.header.size() > kSafetensorsHeaderMax)
    return InvalidArgument("too many tensors for a file");
  return plan;
}

Result<std::vector<Bytes>> EncodeSafetensors(std::span<const NamedTensor> tensors,
                                             const Metadata& metadata) {
  ASSIGN_OR_RETURN(const SafetensorsPlan plan, PlanSafetensors(tensors, metadata));
  std::vector<Bytes> pieces{plan.header};
  for (const NamedTensor* tensor : plan.order) {
    SWARM_CHECK(tensor->elsewhere == nullptr, "a file of a tensor that is elsewhere");
    pieces.push_back(tensor->data);
  }
  return pieces;
}

Result<Bytes> WriteSafetensors(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  ASSIGN_OR_RETURN(const std::vector<Bytes> pieces, EncodeSafetensors(tensors, metadata));
  return Join(pieces);
}

}  // namespace swarm::checkpoint
