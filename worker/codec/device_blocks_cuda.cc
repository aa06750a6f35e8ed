#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "worker/codec/cuda/kernels.h"
#include "worker/codec/device_blocks.h"

namespace swarm::codec {
namespace {

/// libtorch's default: the legacy stream of the device.
constexpr cuda::Stream kComputeStream = nullptr;

/// The tables of the dynamic map, which a device gets once.
const cuda::DynamicTables* TablesOn(at::Device device) {
  static std::mutex mutex;
  static std::map<at::DeviceIndex, at::Tensor> tables;
  std::lock_guard lock(mutex);
  at::Tensor& of_device = tables[device.index()];
  if (!of_device.defined()) {
    cuda::DynamicTables host{DynamicMap(), NearestEntries()};
    of_device =
        at::from_blob(&host, {static_cast<std::int64_t>(sizeof host)}, at::kByte).to(device);
  }
  return reinterpret_cast<const cuda::DynamicTables*>(of_device.const_data_ptr());
}

const cuda::DynamicTables* TablesFor(const BlockCodes& codes, const at::Tensor& tensor) {
  return codes.map() == CodeMap::kDynamic ? TablesOn(tensor.device()) : nullptr;
}

/// Where kernels say which block is odd. Nobody reads it: here every block can be sent, and what is
/// received was checked.
at::Tensor OddBlock(const at::Tensor& tensor) {
  return at::empty({1}, tensor.options().dtype(at::kInt));
}

}  // namespace

Status EncodeBlocksOnDevice(const BlockCodes& codes, const at::Tensor& from, std::byte* to) {
  const at::Tensor odd = OddBlock(from);
  return cuda::EncodeBlocks(codes.map(), codes.block(), from.const_data_ptr<float>(),
                            static_cast<std::size_t>(from.numel()), TablesFor(codes, from), to,
                            reinterpret_cast<std::uint32_t*>(odd.mutable_data_ptr<int>()),
                            kComputeStream);
}

Status DecodeBlocksOnDevice(const BlockCodes& codes, const std::byte* from, const at::Tensor& to) {
  const at::Tensor odd = OddBlock(to);
  return cuda::DecodeBlocks(
      codes.map(), codes.block(), codes.not_finite(), from, static_cast<std::size_t>(to.numel()),
      TablesFor(codes, to), to.mutable_data_ptr<float>(),
      reinterpret_cast<std::uint32_t*>(odd.mutable_data_ptr<int>()), kComputeStream);
}

}  // namespace swarm::codec
