#include "worker/storage/s3/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "base/percent_encode.h"

namespace swarm::storage::s3 {
namespace {

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char c : bytes) {
    hex.push_back(kDigits[c >> 4]);
    hex.push_back(kDigits[c & 15]);
  }
  return hex;
}

std::string HmacSha256(std::string_view key, std::string_view message) {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), mac, &size);
  SWARM_CHECK(done != nullptr, "OpenSSL computes no HMAC");
  return {reinterpret_cast<const char*>(mac), size};
}

std::string Sha256Hex(std::string_view text) {
  const Bytes piece = Bytes::Wrap(text.data(), text.size(), nullptr);
  return s3::Sha256Hex(std::span(&piece, 1));
}

// "20130524T000000Z".
std::string FormatTime(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return {text, size};
}

std::string EncodeQuery(const SignableRequest& request) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : request.query) {
    encoded.emplace_back(PercentEncode(name), PercentEncode(value));
  }
  std::sort(encoded.begin(), encoded.end());
  std::string query;
  for (const auto& [name, value] : encoded) {
    if (!query.empty()) query += '&';
    query += name;
    query += '=';
    query += value;
  }
  return query;
}

}  // namespace

std::string Sha256Hex(std::span<const Bytes> pieces) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  bool ok = EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const Bytes& piece : pieces) {
    ok = ok && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  ok = ok && EVP_DigestFinal_ex(context.get(), digest, &size) == 1;
  SWARM_CHECK(ok, "OpenSSL computes no SHA-256");
  return Hex({reinterpret_cast<const char*>(digest), size});
}

std::string EncodeTarget(const SignableRequest& request) {
  const std::string query = EncodeQuery(request);
  return PercentEncode(request.path, true) + (query.empty() ? "" : "?" + query);
}

std::vector<Header> Sign(const SignableRequest& request, const Credentials& credentials,
                         std::string_view region, std::string_view service,
                         std::chrono::system_clock::time_point now) {
  const std::string time = FormatTime(now);
  const std::string day = time.substr(0, 8);
  std::vector<Header> headers = request.headers;
  headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
  headers.emplace_back("x-amz-date", time);
  if (!credentials.session_token.empty()) {
    headers.emplace_back("x-amz-security-token", credentials.session_token);
  }

  std::vector<Header> signed_headers = headers;
  signed_headers.emplace_back("host", request.host);
  std::sort(signed_headers.begin(), signed_headers.end());
  std::string canonical_headers;
  std::string names;
  for (const auto& [name, value] : signed_headers) {
    canonical_headers += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = request.method + "\n" + PercentEncode(request.path, true) + "\n" +
                                EncodeQuery(request) + "\n" + canonical_headers + "\n" + names +
                                "\n" + request.payload_sha256;

  const std::string scope =
      day + "/" + std::string(region) + "/" + std::string(service) + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + Sha256Hex(canonical);
  std::string key = HmacSha256("AWS4" + credentials.secret_key, day);
  for (const std::string_view part : {region, service, std::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  headers.emplace_back("authorization", "AWS4-HMAC-SHA256 Credential=" + credentials.access_key +
                                            "/" + scope + ",SignedHeaders=" + names +
                                            ",Signature=" + Hex(HmacSha256(key, to_sign)));
  return headers;
}

}  // namespace swarm::storage::s3
