// Signature Version 4 of AWS: proves the identity of the sender and the integrity of the request.
// The only user of OpenSSL in this folder.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "worker/storage/s3/http_client.h"

namespace swarm::storage::s3 {

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< empty for long-lived keys
};

/// A request before it is signed: the parts that go into both the url and the signature.
struct SignableRequest {
  std::string method = "GET";
  std::string host;                                        ///< with the port, if not the default
  std::string path = "/";                                  ///< not encoded
  std::vector<std::pair<std::string, std::string>> query;  ///< not encoded
  std::vector<Header> headers;                             ///< to send; names in lower case
  std::string payload_sha256;                              ///< hexadecimal
};

/// The headers to send: those of the request, host excepted, and x-amz-date, x-amz-content-sha256,
/// x-amz-security-token (with a session token) and authorization. Pure.
std::vector<Header> Sign(const SignableRequest& request, const Credentials& credentials,
                         std::string_view region, std::string_view service,
                         std::chrono::system_clock::time_point now);

/// "/path?a=b", in the encoding that Sign signs.
std::string EncodeTarget(const SignableRequest& request);

/// SHA-256 of the pieces, one after the other, as 64 hexadecimal digits.
std::string Sha256Hex(std::span<const Bytes> pieces);

}  // namespace swarm::storage::s3
