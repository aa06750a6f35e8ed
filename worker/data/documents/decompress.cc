#include "worker/data/documents/decompress.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

namespace swarm::data {
namespace {

using Take = std::function<Status(std::string_view)>;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr int kGzipWindow = 15 + 16;  // the largest window; only files with gzip's header

Status CutOff() { return DataLoss("the compressed file is cut off"); }

Status Inflate(std::string_view content, const Take& take) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return Internal("zlib cannot be used");
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> end(&stream, &inflateEnd);
  std::string piece(kPieceBytes, '\0');
  while (!content.empty()) {
    // zlib counts in 32 bits.
    const auto given =
        static_cast<uInt>(std::min<std::size_t>(content.size(), std::numeric_limits<uInt>::max()));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = piece.size() - stream.avail_out;
    const std::size_t read = given - stream.avail_in;
    content.remove_prefix(read);
    if ((code != Z_OK && code != Z_STREAM_END) || (made == 0 && read == 0)) {
      return DataLoss(std::string("no gzip file, or a damaged one: ") +
                      (stream.msg != nullptr ? stream.msg : zError(code)));
    }
    if (made > 0) RETURN_IF_ERROR(take(std::string_view(piece).substr(0, made)));
    if (code == Z_STREAM_END) {
      if (content.empty()) return Status();
      if (inflateReset(&stream) != Z_OK) return Internal("zlib cannot be used");
    }
  }
  // The last piece may have filled the room before the end of the member was seen.
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = piece.size() - stream.avail_out;
    if (made > 0) RETURN_IF_ERROR(take(std::string_view(piece).substr(0, made)));
    if (code == Z_STREAM_END) return Status();
    if (code != Z_OK || made == 0) return CutOff();
  }
}

Status DecompressZstd(std::string_view content, const Take& take) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  if (context == nullptr) return ResourceExhausted("no memory for zstd");
  std::string piece(kPieceBytes, '\0');
  ZSTD_inBuffer in{content.data(), content.size(), 0};
  while (true) {
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left)) {
      return DataLoss(std::string("no zstd file, or a damaged one: ") + ZSTD_getErrorName(left));
    }
    if (out.pos > 0) RETURN_IF_ERROR(take(std::string_view(piece).substr(0, out.pos)));
    if (in.pos < in.size) continue;
    if (left == 0) return Status();
    if (out.pos < out.size) return CutOff();  // all is read, all is given, and a frame is open
  }
}

}  // namespace

Compression CompressionOf(std::string_view name) {
  if (name.ends_with(".gz")) return Compression::kGzip;
  if (name.ends_with(".zst")) return Compression::kZstd;
  return Compression::kNone;
}

Status Decompress(Compression compression, std::string_view content, const Take& take) {
  if (compression == Compression::kNone) return take(content);
  if (content.empty()) return CutOff();
  return compression == Compression::kGzip ? Inflate(content, take) : DecompressZstd(content, take);
}

}  // namespace swarm::data
