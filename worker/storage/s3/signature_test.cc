// The examples that AWS publishes: "Authenticating Requests: Using the Authorization Header (AWS
// Signature Version 4)", section "Examples: Signature Calculations", of the S3 API reference.
#include "worker/storage/s3/signature.h"

#include <gmock/gmock.h>

namespace swarm::storage::s3 {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const Credentials kCredentials = {"AKIAIOSFODNN7EXAMPLE",
                                  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
// 20130524T000000Z
const auto kTime = std::chrono::system_clock::from_time_t(1369353600);

SignableRequest Example(const std::string& method, const std::string& path) {
  SignableRequest request;
  request.method = method;
  request.host = "examplebucket.s3.amazonaws.com";
  request.path = path;
  request.payload_sha256 = Sha256Hex({});
  return request;
}

std::string Authorization(const SignableRequest& request,
                          const Credentials& credentials = kCredentials) {
  return Sign(request, credentials, "us-east-1", "s3", kTime).back().second;
}

TEST(SignatureTest, AnExampleOfAGetWithARange) {
  SignableRequest request = Example("GET", "/test.txt");
  request.headers = {{"range", "bytes=0-9"}};
  EXPECT_EQ(Authorization(request),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SignatureTest, AnExampleOfAPutWithAPathToEncode) {
  SignableRequest request = Example("PUT", "/test$file.text");
  request.headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  const std::vector<Bytes> body = {Bytes::Copy("Welcome to "), Bytes::Copy("Amazon S3.")};
  request.payload_sha256 = Sha256Hex(body);
  EXPECT_EQ(request.payload_sha256,
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  EXPECT_THAT(
      Authorization(request),
      EndsWith("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SignatureTest, AnExampleOfAQueryWithoutAValue) {
  SignableRequest request = Example("GET", "/");
  request.query = {{"lifecycle", ""}};
  EXPECT_THAT(
      Authorization(request),
      EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SignatureTest, AnExampleOfAQueryThatMustBeSorted) {
  SignableRequest request = Example("GET", "/");
  request.query = {{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_THAT(
      Authorization(request),
      EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SignatureTest, ASessionTokenIsSentAndSigned) {
  Credentials credentials = kCredentials;
  credentials.session_token = "token";
  const SignableRequest request = Example("GET", "/");
  EXPECT_THAT(Sign(request, credentials, "us-east-1", "s3", kTime),
              testing::Contains(Header("x-amz-security-token", "token")));
  EXPECT_THAT(Authorization(request, credentials), HasSubstr("x-amz-date;x-amz-security-token,"));
}

TEST(SignatureTest, TargetsAreEncodedOnceAndCompletely) {
  SignableRequest request = Example("GET", "/a b/ü+~$");
  request.query = {{"prefix", "x/y&z"}, {"list-type", "2"}};
  EXPECT_EQ(EncodeTarget(request), "/a%20b/%C3%BC%2B~%24?list-type=2&prefix=x%2Fy%26z");
}

}  // namespace
}  // namespace swarm::storage::s3
