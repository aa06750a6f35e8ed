#include "worker/checkpoint/huggingface.h"

#include <gmock/gmock.h>

#include "base/testing/temporary_folder.h"

namespace swarm::checkpoint {
namespace {

using testing::HasSubstr;

constexpr const char* kConfig = R"({"hidden_size": 2, "eos_token_id": 1, "bos_token_id": null})";

NamedTensor Halves(std::string name, ElementType type, std::vector<std::uint16_t> bits) {
  return {std::move(name),
          type,
          {static_cast<std::int64_t>(bits.size())},
          Bytes::Copy(bits.data(), bits.size() * 2)};
}

float First(const NamedTensor& tensor) {
  float value;
  std::memcpy(&value, tensor.data.data(), 4);
  return value;
}

TEST(HuggingFaceTest, AFolderThatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = {Halves("a", ElementType::kBF16, {0x4000, 0x3f80}),
                                            Halves("b", ElementType::kF16, {0x3c00})};
  ASSERT_TRUE(WriteHuggingFaceFolder(folder / "out", kConfig, tensors).ok());
  const auto model = HuggingFaceFolder::Open(folder / "out");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_THAT((*model)->config_json(), HasSubstr("hidden_size"));
  EXPECT_EQ(First(*(*model)->Lookup("a")), 2.0f);
  EXPECT_EQ(First(*(*model)->Lookup("b")), 1.0f);
  EXPECT_EQ((*model)->LookupRaw("a")->type, ElementType::kBF16);
  EXPECT_EQ((*model)->Lookup("lm_head.weight").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(folder.Get("out/model.safetensors"), HasSubstr(R"("__metadata__":{"format":"pt"})"));
  EXPECT_THAT(folder.Get("out/generation_config.json"), HasSubstr("\"eos_token_id\": 1"));
  EXPECT_THAT(folder.Get("out/generation_config.json"), testing::Not(HasSubstr("bos")));
}

TEST(HuggingFaceTest, ShardsAreFoundByTheIndex) {
  const TemporaryFolder folder;
  const auto shard = [](const char* name, std::uint16_t bits) {
    return std::string(
        WriteSafetensors(std::vector{Halves(name, ElementType::kBF16, {bits})})->text());
  };
  folder.Put("config.json", kConfig);
  folder.Put("model-1.safetensors", shard("a", 0x3f80));
  folder.Put("model-2.safetensors", shard("b", 0x4000));
  folder.Put("model.safetensors.index.json",
             R"({"metadata": {"total_size": 4}, "weight_map": {"a": "model-1.safetensors",
                 "b": "model-2.safetensors", "c": "model-3.safetensors", "d": "../escape",
                 "e": "model-1.safetensors"}})");
  const auto model = HuggingFaceFolder::Open(folder.path().string());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(First(*(*model)->Lookup("a")), 1.0f);
  EXPECT_EQ(First(*(*model)->Lookup("b")), 2.0f);
  const Status missing = (*model)->Lookup("c").status();
  EXPECT_EQ(missing.code(), StatusCode::kDataLoss);
  EXPECT_THAT(missing.message(), HasSubstr("model-3.safetensors"));
  EXPECT_EQ((*model)->Lookup("d").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*model)->Lookup("e").status().code(), StatusCode::kNotFound);
  EXPECT_EQ((*model)->Lookup("f").status().code(), StatusCode::kNotFound);
}

TEST(HuggingFaceTest, WhatIsTooLargeForAFileIsWrittenInShards) {
  const TemporaryFolder folder;
  // The last one lies between two bfloat16 numbers, of which the even one counts.
  const std::vector<float> values{1, -2, 1.00390625F};
  std::vector<NamedTensor> tensors;
  for (const char* name : {"a", "b", "c", "d"}) {
    tensors.push_back({name, ElementType::kF32, {3}, Bytes::Copy(values.data(), 12)});
  }
  const WeightsFormat format{.type = ElementType::kBF16, .shard_bytes = 13};
  ASSERT_TRUE(WriteHuggingFaceFolder(folder / "out", kConfig, tensors, format).ok());
  EXPECT_THAT(folder.Get("out/model.safetensors.index.json"), HasSubstr("\"total_size\": 24"));
  EXPECT_THAT(folder.Get("out/config.json"), HasSubstr("bfloat16"));
  const auto model = HuggingFaceFolder::Open(folder / "out");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const std::vector<float> rounded{1, -2, 1};
  for (const NamedTensor& tensor : tensors) {
    const auto read = (*model)->Lookup(tensor.name);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->data.text(), Bytes::Copy(rounded.data(), 12).text());
  }
  for (const std::string number : {"1", "2"}) {
    const std::string file = folder.Get("out/model-0000" + number + "-of-00002.safetensors");
    EXPECT_EQ(ReadSafetensors(Bytes::Copy(file))->names().size(), 2u) << number;
  }
}

TEST(HuggingFaceTest, FoldersThatAreNoModelSayWhatIsMissing) {
  const TemporaryFolder folder;
  const auto error = [&] { return HuggingFaceFolder::Open(folder.path().string()).status(); };
  EXPECT_THAT(error().message(), HasSubstr("config.json"));
  folder.Put("config.json", "[]");
  EXPECT_EQ(error().code(), StatusCode::kDataLoss);
  folder.Put("config.json", kConfig);
  folder.Put("pytorch_model.bin", "x");
  EXPECT_THAT(error().message(), HasSubstr("converted to safetensors"));
  folder.Put("model.safetensors.index.json", "{}");
  EXPECT_THAT(error().message(), HasSubstr("weight_map"));
  for (const std::string& config : {std::string("no json"), std::string(100000, '[')}) {
    EXPECT_EQ(WriteHuggingFaceFolder(folder / "out", config, {}).code(),
              StatusCode::kInvalidArgument);
  }
  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_THAT(WriteHuggingFaceFolder(folder / "out", deep, {}).message(), HasSubstr("too deep"));
}

}  // namespace
}  // namespace swarm::checkpoint
