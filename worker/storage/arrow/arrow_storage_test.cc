// Against servers with the few answers of Google's and Azure's protocols that reading takes.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>

#include "worker/storage/arrow/testing/google_answers.h"
#include "worker/storage/s3/testing/test_http_server.h"
#include "worker/storage/storage.h"

namespace swarm::storage {
namespace {

using s3::TestHttpServer;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::map<std::string, std::string> kFiles = {{"web/a.txt", "hello world"},
                                                   {"web/b/c.txt", "there"}};

std::string AnswerAsAzure(const std::string& request) {
  const std::string date = "Mon, 01 Jan 2024 00:00:00 GMT";
  const std::string common =
      "x-ms-request-id: 1\r\nx-ms-version: 2020-02-10\r\nDate: " + date + "\r\n";
  const std::string target = Between(request, " /account/", " ");
  if (target.find("action=getAccessControl") != target.npos) {
    return TestHttpServer::Response(
        400, "", common + "x-ms-error-code: HierarchicalNamespaceNotEnabled\r\n");
  }
  if (target.starts_with("secret")) {
    return TestHttpServer::Response(403, "",
                                    common + "x-ms-error-code: AuthorizationFailure\r\n");
  }
  if (target.find("comp=list") != target.npos) {
    const std::string prefix = Between(target + "&", "prefix=", "&");
    const auto blob = [&](const std::string& name) {
      return "<Blob><Name>" + name + "</Name><Properties><Creation-Time>" + date +
             "</Creation-Time><Last-Modified>" + date + "</Last-Modified><Etag>1</Etag>" +
             "<Content-Length>" + std::to_string(kFiles.at(name).size()) +
             "</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>";
    };
    std::string blobs;
    if (prefix == "web/" || prefix == "web%2F") {
      blobs = blob("web/a.txt") + "<BlobPrefix><Name>web/b/</Name></BlobPrefix>";
    } else if (prefix == "web/b/" || prefix == "web%2Fb%2F") {
      blobs = blob("web/b/c.txt");
    }
    return TestHttpServer::Response(
        200,
        "<?xml version=\"1.0\"?><EnumerationResults><Blobs>" + blobs +
            "</Blobs><NextMarker /></EnumerationResults>",
        common + "Content-Type: application/xml\r\n");
  }
  if (target != "bucket/web/a.txt") {
    return TestHttpServer::Response(404, "", common + "x-ms-error-code: BlobNotFound\r\n");
  }
  const std::string& content = kFiles.at("web/a.txt");
  const std::string headers = common + "ETag: \"1\"\r\nLast-Modified: " + date +
                              "\r\nx-ms-creation-time: " + date +
                              "\r\nx-ms-blob-type: BlockBlob\r\nx-ms-server-encrypted: false\r\n";
  if (!request.starts_with("HEAD")) {
    return AnswerWith(content, Between(request, "x-ms-range: bytes=", "\r"), headers);
  }
  std::string head = TestHttpServer::Response(200, content, headers);
  head.resize(head.size() - content.size());
  return head;
}

class ArrowStorageTest : public testing::TestWithParam<const char*> {
 protected:
  ArrowStorageTest() : server_([](const std::string& request) {
          return is_google() ? AnswerAsGoogle(request, kFiles) : AnswerAsAzure(request);
        }) {
    ::setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", server_.url().c_str(), 1);
  }
  static bool is_google() { return std::string(GetParam()) == "google"; }
  std::string Uri(const std::string& path) const {
    if (is_google()) return "gs://anonymous@" + path;
    return "abfs://account@" + server_.url().substr(7) + "/" + path +
           "?enable_tls=false&credential_kind=anonymous";
  }
  std::unique_ptr<Storage> Open(const std::string& path) const {
    auto opened = Storage::Open(Uri(path));
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return *std::move(opened);
  }

  TestHttpServer server_;
};

TEST_P(ArrowStorageTest, FilesAreListedAndReadWholeAndInParts) {
  const auto storage = Open("bucket/web");
  const auto files = storage->ListFiles("");
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].name, "a.txt");
  EXPECT_EQ((*files)[0].size, 11u);
  EXPECT_THAT(*storage->List("b/"), ElementsAre("b/c.txt"));
  const auto size = storage->Size("a.txt");
  ASSERT_TRUE(size.ok()) << size.status().ToString();
  EXPECT_EQ(*size, 11u);
  EXPECT_EQ(storage->Read("a.txt")->text(), "hello world");
  EXPECT_EQ(storage->ReadRange("a.txt", 6, 3)->text(), "wor");
  EXPECT_EQ(storage->ReadRange("a.txt", 6, 30).status().code(), StatusCode::kOutOfRange);
}

TEST_P(ArrowStorageTest, WhatIsMissingOrForbiddenIsNamed) {
  const Status missing = Open("bucket/web")->Read("none.txt").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound) << missing.ToString();
  EXPECT_THAT(missing.message(), HasSubstr("bucket/web/none.txt"));
  EXPECT_THAT(*Open("bucket/empty")->ListFiles(""), IsEmpty());
  const Status forbidden = Open("secret/web")->ListFiles("").status();
  EXPECT_EQ(forbidden.code(), StatusCode::kPermissionDenied) << forbidden.ToString();
  EXPECT_THAT(forbidden.message(), HasSubstr("secret/web"));
}

TEST_P(ArrowStorageTest, NothingIsWrittenThere) {
  const auto storage = Open("bucket/web");
  for (const Status& status :
       {storage->Write("x", Bytes::Copy("x")), storage->WriteIfAbsent("x", Bytes::Copy("x")),
        storage->Remove("a.txt"), storage->RemoveFolder("b")}) {
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("bucket/web"), HasSubstr("s3://")));
  }
  EXPECT_THAT(server_.requests(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(, ArrowStorageTest, testing::Values("google", "azure"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace swarm::storage
