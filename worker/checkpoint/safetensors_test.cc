#include "worker/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include "base/rng.h"

namespace swarm::checkpoint {
namespace {

using testing::HasSubstr;

NamedTensor Floats(std::string name, std::vector<std::int64_t> shape, std::vector<float> values) {
  return {std::move(name), ElementType::kF32, std::move(shape),
          Bytes::Copy(values.data(), values.size() * 4)};
}

std::vector<NamedTensor> Examples() {
  const std::uint16_t half = 0x3f80;
  const std::int64_t step = 7;
  return {{"norm.weight", ElementType::kBF16, {1}, Bytes::Copy(&half, 2)},
          Floats("layers.0.weight", {2, 3}, {1, 2, 3, 4, 5, 6}),
          Floats("scalar", {}, {0.5f}),
          Floats("nothing", {0, 4}, {}),
          {"optimizer.step", ElementType::kI64, {}, Bytes::Copy(&step, 8)}};
}

Bytes File(std::string_view json, std::size_t data_bytes) {
  const std::uint64_t size = json.size();
  std::string file(reinterpret_cast<const char*>(&size), 8);
  file += json;
  file.append(data_bytes, 'x');
  return Bytes::Copy(file);
}

void ExpectRefused(std::string_view json, std::size_t data_bytes, const std::string& because) {
  const auto file = ReadSafetensors(File(json, data_bytes));
  ASSERT_FALSE(file.ok()) << json;
  EXPECT_EQ(file.status().code(), StatusCode::kDataLoss) << json;
  EXPECT_THAT(file.status().message(), HasSubstr(because)) << json;
}

TEST(SafetensorsTest, WhatIsWrittenIsRead) {
  const auto tensors = Examples();
  const auto bytes = WriteSafetensors(tensors, {{"format", "pt"}});
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto file = ReadSafetensors(*bytes);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_THAT(file->metadata(), testing::ElementsAre(testing::Pair("format", "pt")));
  EXPECT_EQ(file->names().size(), tensors.size());
  for (const NamedTensor& tensor : tensors) {
    const auto read = file->Lookup(tensor.name);
    ASSERT_TRUE(read.ok()) << tensor.name;
    EXPECT_EQ(read->type, tensor.type);
    EXPECT_EQ(read->shape, tensor.shape);
    EXPECT_EQ(read->data.text(), tensor.data.text());
  }
  EXPECT_EQ(file->Lookup("other").status().code(), StatusCode::kNotFound);
}

TEST(SafetensorsTest, TheBytesAreThoseOfTheFormat) {
  const auto bytes = WriteSafetensors(std::vector{Floats("w", {1}, {1.0f})});
  const std::string json = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  const std::string expected =
      std::string(1, static_cast<char>(padded.size())) + std::string(7, '\0') + padded;
  EXPECT_EQ(bytes->text(), expected + std::string("\0\0\x80\x3f", 4));
}

TEST(SafetensorsTest, AFileOfHuggingFacesLibraryIsRead) {
  // Written by safetensors.numpy.save_file of safetensors 0.8.0.
  const std::string json =
      R"({"__metadata__":{"format":"np"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[3],"data_offsets":[8,20]},)"
      R"("a":{"dtype":"F16","shape":[2],"data_offsets":[20,24]}}       )";
  ASSERT_EQ(json.size(), 0xc8u);
  const std::string_view data(
      "\x09\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\x80\x3f\0\0\0\x40"
      "\0\x3e\0\xc0",
      24);
  const auto file =
      ReadSafetensors(Bytes::Copy("\xc8" + std::string(7, '\0') + json + std::string(data)));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_THAT(file->metadata(), testing::ElementsAre(testing::Pair("format", "np")));
  EXPECT_EQ(file->Lookup("n")->data.text(), data.substr(0, 8));
  EXPECT_EQ(file->Lookup("b")->data.text(), data.substr(8, 12));
  EXPECT_EQ(file->Lookup("a")->data.text(), data.substr(20));
  EXPECT_THAT(file->Lookup("n")->shape, testing::IsEmpty());
}

TEST(SafetensorsTest, TensorsAreViewsOfTheFileAndAligned) {
  const Bytes bytes = *WriteSafetensors(Examples());
  const auto file = ReadSafetensors(bytes);
  for (const std::string& name : file->names()) {
    const NamedTensor tensor = *file->Lookup(name);
    EXPECT_GE(tensor.data.data(), bytes.data());
    EXPECT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
  }
}

TEST(SafetensorsTest, AnUnalignedTensorIsCopied) {
  const auto file = ReadSafetensors(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                         5));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const NamedTensor b = *file->Lookup("b");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data.data()) % 4, 0u);
  EXPECT_EQ(b.data.text(), "xxxx");
  EXPECT_EQ(file->Lookup("a").status().code(), StatusCode::kUnimplemented);
}

TEST(SafetensorsTest, HeadersThatLieAreRefused) {
  const std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  ExpectRefused("{" + w + "}", 3, "the tensors need 4 bytes");
  ExpectRefused("{" + w + "}", 5, "the file has 5");
  ExpectRefused("{" + w + "," + w + "}", 4, "a name twice");
  ExpectRefused("{" + w + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6,
                "overlap");
  ExpectRefused("{" + w + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[6,10]}})", 10, "gap");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "needs 8 bytes");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "offsets");
  ExpectRefused(R"({"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "no dtype");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "negative");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4]}})", 4,
                "more elements than memory");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[1]}})", 4, "not all of");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "key x");
  ExpectRefused(R"({"w":{"shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4, "a key twice");
  ExpectRefused(R"({"w":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "an array");
  ExpectRefused(R"({"w":1})", 0, "a number");
  ExpectRefused(R"({"__metadata__":{"a":{}}})", 0, "an object");
  ExpectRefused("[]", 0, "begin with {");
  ExpectRefused("{", 0, "no JSON");
  ExpectRefused("{}{}", 0, "no JSON");
}

TEST(SafetensorsTest, DeepNestingAndHugeHeadersAreRefusedBeforeTheyCostMuch) {
  ExpectRefused(R"({"w":)" + std::string(1 << 20, '['), 0, "an array");
  const std::uint64_t huge = 1ULL << 60;
  EXPECT_FALSE(ReadSafetensors(Bytes::Copy(&huge, 8)).ok());
  EXPECT_FALSE(ReadSafetensors(Bytes::Copy("short")).ok());
  EXPECT_FALSE(ReadSafetensors(Bytes()).ok());
}

TEST(SafetensorsTest, MutatedFilesAreReadWithinTheirBoundsOrRefused) {
  const Bytes original = *WriteSafetensors(Examples(), {{"format", "pt"}});
  Rng rng(20260101);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string file(original.text());
    for (std::uint64_t edits = 1 + rng.Below(4); edits > 0; --edits) {
      const std::size_t at = rng.Below(file.size());
      switch (rng.Below(3)) {
        case 0:
          file[at] = static_cast<char>(rng());
          break;
        case 1:
          file.resize(at + 1);
          break;
        default:
          file.insert(at, 1, "{}[]\",:0123456789"[rng.Below(17)]);
          break;
      }
    }
    const auto read = ReadSafetensors(Bytes::Copy(file));
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
      ++refused;
      continue;
    }
    std::size_t bytes = 0;
    for (const std::string& name : read->names()) {
      const auto tensor = read->Lookup(name);
      if (!tensor.ok()) continue;
      EXPECT_EQ(tensor->data.size(),
                *ComputeTensorBytes(tensor->shape, ElementBytes(tensor->type)));
      bytes += std::string(tensor->data.text()).size();  // touches every byte
    }
    EXPECT_LE(bytes, file.size());
  }
  EXPECT_GT(refused, 1000);
}

TEST(SafetensorsTest, TensorsThatCannotBeWrittenAreRefused) {
  const NamedTensor w = Floats("w", {1}, {1});
  EXPECT_FALSE(WriteSafetensors(std::vector{w, w}).ok());
  EXPECT_FALSE(WriteSafetensors(std::vector{Floats("w", {2}, {1})}).ok());
  EXPECT_FALSE(WriteSafetensors(std::vector{Floats("__metadata__", {1}, {1})}).ok());
  EXPECT_FALSE(WriteSafetensors(std::vector{Floats("\xff", {1}, {1})}).ok());
}

}  // namespace
}  // namespace swarm::checkpoint
