#include "worker/codec/cuda/digest_body.h"
#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/launch.cuh"

namespace swarm::codec::cuda {
namespace {

using Thread = WarpTeam<1>;

__global__ void __launch_bounds__(kThreads) BlockSumsKernel(const DigestTask task) {
  const std::size_t i = Thread::Index();
  if (i < std::size_t{task.pieces} * task.blocks * kDigestLanes) SumOfBlock(task, i);
}

__global__ void __launch_bounds__(kThreads) PiecesKernel(const DigestTask task) {
  const std::size_t i = Thread::Index();
  if (i < task.pieces * kDigestLanes) AccumulatePiece(task, i);
}

}  // namespace

Status DigestPieces(const DigestTask& task, Stream stream) {
  if (task.pieces == 0) return {};
  BlockSumsKernel<<<BlocksOf(std::size_t{task.pieces} * task.blocks * kDigestLanes, 1), kThreads, 0,
                    stream>>>(task);
  // Few threads with long chains: each thread block has its own multiprocessor.
  constexpr unsigned kFew = 32;
  const auto blocks = static_cast<unsigned>((task.pieces * kDigestLanes + kFew - 1) / kFew);
  PiecesKernel<<<blocks, kFew, 0, stream>>>(task);
  return CheckLaunch("digest", task.pieces);
}

}  // namespace swarm::codec::cuda
