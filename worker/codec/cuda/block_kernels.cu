#include "worker/codec/cuda/block_body.h"
#include "worker/codec/cuda/launch.cuh"

namespace swarm::codec::cuda {
namespace {

// A warp for a block: with blocks of 256 numbers, a lane reads two packs of four.
using Team = WarpTeam<32>;

template <CodeMap kMap, unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    EncodeKernel(const EncodeTask task, std::size_t blocks) {
  const std::size_t index = Team::Index();
  if (index < blocks) EncodeBlock<kMap, kWidth>(Team(), task, index);
}

template <CodeMap kMap, unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    DecodeKernel(const DecodeTask task, std::size_t blocks) {
  const std::size_t index = Team::Index();
  if (index < blocks) DecodeBlock<kMap, kWidth>(Team(), task, index);
}

template <typename Task>
Status Launch(const char* what, void (*kernel)(Task, std::size_t), const Task& task,
              Stream stream) {
  if (task.n == 0) return {};
  const std::size_t blocks = (task.n + task.block - 1) / task.block;
  kernel<<<BlocksOf(blocks, Team::kLanes), kThreads, 0, stream>>>(task, blocks);
  return CheckLaunch(what, task.n);
}

}  // namespace

Status EncodeBlocks(CodeMap map, std::size_t block, const float* x, std::size_t n,
                    const DynamicTables* tables, std::byte* payload, std::uint32_t* odd_block,
                    Stream stream) {
  const EncodeTask task{x, n, block, tables, payload, odd_block};
  const bool packs = block % 4 == 0 && IsAlignedToPacks<4>(x), linear = map == CodeMap::kLinear;
  return Launch(
      "encode",
      linear ? (packs ? EncodeKernel<CodeMap::kLinear, 4> : EncodeKernel<CodeMap::kLinear, 1>)
             : (packs ? EncodeKernel<CodeMap::kDynamic, 4> : EncodeKernel<CodeMap::kDynamic, 1>),
      task, stream);
}

Status DecodeBlocks(CodeMap map, std::size_t block, NotFinite not_finite, const std::byte* payload,
                    std::size_t n, const DynamicTables* tables, float* x, std::uint32_t* odd_block,
                    Stream stream) {
  const DecodeTask task{payload, n, block, tables, not_finite, x, odd_block};
  const bool packs = block % 4 == 0 && IsAlignedToPacks<4>(x), linear = map == CodeMap::kLinear;
  return Launch(
      "decode",
      linear ? (packs ? DecodeKernel<CodeMap::kLinear, 4> : DecodeKernel<CodeMap::kLinear, 1>)
             : (packs ? DecodeKernel<CodeMap::kDynamic, 4> : DecodeKernel<CodeMap::kDynamic, 1>),
      task, stream);
}

}  // namespace swarm::codec::cuda
