// For tests: compressed files.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "worker/data/documents/decompress.h"

namespace swarm::data {

inline std::string Gzip(std::string_view text) {
  z_stream stream{};
  SWARM_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  SWARM_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string Compress(Compression compression, std::string_view text) {
  if (compression == Compression::kNone) return std::string(text);
  return compression == Compression::kGzip ? Gzip(text) : Zstd(text);
}

}  // namespace swarm::data
