#include "worker/checkpoint/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace swarm::checkpoint {
namespace {

Bytes RandomBytes(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  return Bytes::Make(size, [&](std::byte* out) {
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(rng());
  });
}

Bytes Join(const PiecedBytes& pieced) {
  std::string whole;
  for (std::uint64_t i = 0; i < pieced.count(); ++i) whole += pieced.Piece(i).text();
  return Bytes::Copy(whole);
}

TEST(PiecesTest, PiecesMatchTheIndexAndAreTheWhole) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{kPieceBytes},
                                 std::size_t{kPieceBytes + 1}, std::size_t{2 * kPieceBytes - 1}}) {
    const Bytes whole = RandomBytes(size, size);
    const PiecedBytes pieced({whole});
    EXPECT_EQ(Join(pieced).text(), whole.text());
    const auto index = DecodePieceIndex(pieced.index().span());
    ASSERT_TRUE(index.ok()) << index.status().ToString();
    EXPECT_EQ(index->bytes, size);
    ASSERT_EQ(index->count(), pieced.count());
    for (std::uint64_t i = 0; i < index->count(); ++i) {
      EXPECT_LE(pieced.Piece(i).size(), kPieceBytes);
      EXPECT_TRUE(index->Matches(i, pieced.Piece(i).span())) << size << " bytes, piece " << i;
    }
  }
}

TEST(PiecesTest, TheDigestIsOfTheWholeHoweverItLies) {
  const Bytes whole = RandomBytes(2 * kPieceBytes + 1000, 1);
  const std::vector<Bytes> parts = {whole.Slice(0, 10), whole.Slice(10, 0),
                                    whole.Slice(10, kPieceBytes - 10),
                                    whole.Slice(kPieceBytes, kPieceBytes + 1000)};
  const PiecedBytes pieced(parts);
  EXPECT_EQ(pieced.digest(), PiecedBytes({whole}).digest());
  EXPECT_EQ(pieced.index().text(), PiecedBytes({whole}).index().text());
  EXPECT_EQ(Join(pieced).text(), whole.text());
  EXPECT_EQ(pieced.Piece(1).data(), whole.data() + kPieceBytes)
      << "a piece that lies in one part is not copied";

  const PiecedBytes backwards(parts, [](std::size_t count, const auto& body) {
    for (std::size_t i = count; i-- > 0;) body(i);
  });
  EXPECT_EQ(backwards.digest(), pieced.digest());
}

TEST(PiecesTest, AnyChangedByteChangesTheDigest) {
  const Bytes whole = RandomBytes(kPieceBytes + 5, 2);
  const Digest digest = PiecedBytes({whole}).digest();
  for (const std::size_t at : {std::size_t{0}, std::size_t{kPieceBytes}, whole.size() - 1}) {
    std::string changed(whole.text());
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_NE(PiecedBytes({Bytes::Copy(changed)}).digest(), digest) << at;
  }
  EXPECT_NE(PiecedBytes({whole.Slice(0, whole.size() - 1)}).digest(), digest);
}

TEST(PiecesTest, WhatIsNoIndexIsRefused) {
  const Bytes index = PiecedBytes({RandomBytes(kPieceBytes + 5, 2)}).index();
  EXPECT_TRUE(DecodePieceIndex(index.span()).ok());
  for (const std::size_t size : {0, 7, 8, 20, 24, 39}) {
    EXPECT_EQ(DecodePieceIndex(index.span().first(size)).status().code(), StatusCode::kDataLoss);
  }
  const Bytes huge = Bytes::Copy(std::string(8, '\xff'));
  EXPECT_EQ(DecodePieceIndex(huge.span()).status().code(), StatusCode::kDataLoss);
}

/// Bytes as if they were not here.
class Away final : public Elsewhere {
 public:
  explicit Away(Bytes bytes) : bytes_(std::move(bytes)) {}
  Status Read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset + to.size() > bytes_.size()) return Unavailable("behind the end");
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return {};
  }

 private:
  const Bytes bytes_;
};

TEST(PiecesTest, TheDigestOfAStateThatIsElsewhereIsThatOfItsBytes) {
  const std::vector<std::int64_t> sizes = {kPieceBytes / 4 - 30, 3, 2 * kPieceBytes / 4 + 5, 0};
  std::vector<NamedTensor> here, away;
  for (const std::int64_t size : sizes) {
    const std::string name = "tensor" + std::to_string(size);
    const Bytes bytes = RandomBytes(static_cast<std::size_t>(size) * 4, 3);
    here.push_back({name, ElementType::kF32, {size}, bytes});
    away.push_back({name, ElementType::kF32, {size}, {}, std::make_shared<Away>(bytes)});
  }
  for (auto* tensors : {&here, &away}) {  // one that is here in any case
    tensors->push_back({"scale", ElementType::kI64, {}, RandomBytes(8, 4)});
  }
  const auto expected = CutState(here);
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(*DigestState(here), expected->digest());
  EXPECT_EQ(*DigestState(away), expected->digest());
  EXPECT_EQ(Keep(away[1])->data.text(), here[1].data.text());
  away[2].elsewhere = std::make_shared<Away>(Bytes());
  EXPECT_EQ(DigestState(away).status().code(), StatusCode::kUnavailable);
}

/// Bytes of which the digests of some pieces are known, and that cannot be read there.
class Known final : public Elsewhere {
 public:
  Known(Bytes bytes, std::uint64_t first) : bytes_(std::move(bytes)), first_(first) {}
  Status Read(std::uint64_t offset, std::span<std::byte> to) const override {
    const std::uint64_t pieces = (bytes_.size() - first_) / kPieceBytes;
    const bool before = offset + to.size() <= first_;
    const bool behind = offset >= first_ + pieces * kPieceBytes;
    if (!before && !behind) return Unavailable("read, and known");
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return {};
  }
  std::optional<Digest> KnownDigest(std::uint64_t offset, std::uint64_t size) const override {
    if (offset % kPieceBytes != first_) return {};
    return ComputeDigest(bytes_.span().subspan(offset, size));
  }

 private:
  const Bytes bytes_;
  const std::uint64_t first_;
};

TEST(PiecesTest, PiecesWhoseDigestIsKnownAreNotRead) {
  std::vector<NamedTensor> here, known;
  for (const std::int64_t size : {1000, 7 * 1024 * 1024, 3, 1024 * 1024, 2 * 1024 * 1024}) {
    const std::string name = "tensor" + std::to_string(size);
    here.push_back({name, ElementType::kF32, {size}, RandomBytes(std::size_t(size) * 4, 3)});
  }
  const auto first = FindFirstPieces(here);
  ASSERT_TRUE(first.ok());
  for (const NamedTensor& tensor : here) {
    const std::uint64_t at = std::min(first->at(tensor.name), tensor.data.size());
    known.push_back(
        {tensor.name, tensor.type, tensor.shape, {}, std::make_shared<Known>(tensor.data, at)});
  }
  EXPECT_EQ(*DigestState(known), CutState(here)->digest());
}

TEST(PiecesTest, AStateIsFoundAgainByName) {
  const Bytes weights = RandomBytes(24, 3);
  const Bytes count = RandomBytes(8, 4);
  const std::vector<NamedTensor> tensors = {
      {"layer.weight", ElementType::kF32, {2, 3}, weights},
      {"optimizer.step.layer.weight", ElementType::kI64, {}, count}};
  const auto state = CutState(tensors);
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  const auto lookup = ReadState(Join(*state));
  ASSERT_TRUE(lookup.ok()) << lookup.status().ToString();
  for (const NamedTensor& tensor : tensors) {
    const auto found = (*lookup)(tensor.name);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->data.text(), tensor.data.text());
  }
  EXPECT_EQ((*lookup)("layer.bias").status().code(), StatusCode::kNotFound);

  std::vector<NamedTensor> reshaped = tensors;
  reshaped[0].shape = {3, 2};
  EXPECT_NE(CutState(reshaped)->digest(), state->digest()) << "shapes are part of the state";
  EXPECT_EQ(ReadState(weights).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace swarm::checkpoint
