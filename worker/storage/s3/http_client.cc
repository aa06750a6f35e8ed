#include "worker/storage/s3/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

namespace swarm::storage::s3 {
namespace {

constexpr long kConnectTimeoutMs = 10'000;
constexpr long kStallBytesPerSecond = 1000;
constexpr std::size_t kReserveMax = std::size_t{1} << 30;
constexpr std::size_t kIdleMax = 8;

// What the callbacks of one request read and write.
struct Transfer {
  CURL* curl = nullptr;
  const HttpRequest* request = nullptr;
  std::size_t piece = 0;   // the next byte to send
  std::size_t offset = 0;  // in that piece
  std::map<std::string, std::string> headers;
  std::shared_ptr<std::vector<std::byte>> body = std::make_shared<std::vector<std::byte>>();
};

std::size_t SendBody(char* out, std::size_t size, std::size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const std::vector<Bytes>& pieces = transfer.request->body;
  const std::size_t room = size * count;
  std::size_t done = 0;
  while (done < room && transfer.piece < pieces.size()) {
    const Bytes& piece = pieces[transfer.piece];
    const std::size_t part = std::min(room - done, piece.size() - transfer.offset);
    if (part > 0) std::memcpy(out + done, piece.data() + transfer.offset, part);
    done += part;
    transfer.offset += part;
    if (transfer.offset == piece.size()) {
      ++transfer.piece;
      transfer.offset = 0;
    }
  }
  return done;
}

// curl rewinds when it has to send again on a new connection.
int RewindBody(void* context, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (origin != SEEK_SET || offset != 0) return CURL_SEEKFUNC_CANTSEEK;
  transfer.piece = 0;
  transfer.offset = 0;
  return CURL_SEEKFUNC_OK;
}

std::size_t ReceiveBody(char* data, std::size_t size, std::size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  std::vector<std::byte>& body = *transfer.body;
  if (body.empty()) {
    curl_off_t announced = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    if (announced > 0) body.reserve(std::min(static_cast<std::size_t>(announced), kReserveMax));
  }
  if (size * count > transfer.request->response_bytes_max - body.size()) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  body.insert(body.end(), bytes, bytes + size * count);
  return size * count;
}

std::size_t ReceiveHeader(char* data, std::size_t size, std::size_t count, void* context) {
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  if (colon != line.npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front()))) {
      value.remove_prefix(1);
    }
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back()))) {
      value.remove_suffix(1);
    }
    static_cast<Transfer*>(context)->headers[name] = value;
  }
  return size * count;
}

long Milliseconds(Duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return std::max<long>(1, static_cast<long>(ms));
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

HeaderList MakeHeaders(const HttpRequest& request) {
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers) {
    list = curl_slist_append(list, (name + ": " + value).c_str());
  }
  // curl would add these itself: a content type to a POST, and a wait for "100 Continue".
  list = curl_slist_append(list, "Expect:");
  const bool has_type = std::any_of(request.headers.begin(), request.headers.end(),
                                    [](auto& header) { return header.first == "content-type"; });
  if (!has_type) list = curl_slist_append(list, "Content-Type:");
  return HeaderList(list);
}

}  // namespace

// A connection of curl's, with what it keeps between requests.
class HttpClient::Handle {
 public:
  Handle() : curl_(curl_easy_init()) { SWARM_CHECK(curl_ != nullptr, "libcurl gives no handle"); }
  ~Handle() { curl_easy_cleanup(curl_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Result<HttpResponse> Send(const HttpRequest& request) {
    curl_easy_reset(curl_);
    Transfer transfer{.curl = curl_, .request = &request};
    const HeaderList headers = MakeHeaders(request);
    char error[CURL_ERROR_SIZE] = "";
    SetUp(request, transfer, headers.get(), error);
    const CURLcode code = curl_easy_perform(curl_);
    if (code == CURLE_WRITE_ERROR) return DataLoss(request.url + " answers with too many bytes");
    if (code != CURLE_OK) {
      const std::string reason = error[0] != '\0' ? error : curl_easy_strerror(code);
      return Unavailable(request.method + " " + request.url + ": " + reason);
    }
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    const std::shared_ptr<std::vector<std::byte>> body = transfer.body;
    return HttpResponse{static_cast<int>(status), std::move(transfer.headers),
                        Bytes::Wrap(body->data(), body->size(), body)};
  }

 private:
  void SetUp(const HttpRequest& request, Transfer& transfer, curl_slist* headers, char* error) {
    curl_easy_setopt(curl_, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl_, CURLOPT_PATH_AS_IS, 1L);  // the signature covers the path as it stands
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, Milliseconds(request.timeout));
    curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
    curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME,
                     std::max(1L, Milliseconds(request.stall_timeout) / 1000));
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, ReceiveBody);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, ReceiveHeader);
    curl_easy_setopt(curl_, CURLOPT_HEADERDATA, &transfer);
    if (IsLocalHost(request.url)) curl_easy_setopt(curl_, CURLOPT_NOPROXY, "*");
    if (const char* bundle = std::getenv("AWS_CA_BUNDLE")) {
      curl_easy_setopt(curl_, CURLOPT_CAINFO, bundle);
    }
    SetMethod(request, transfer);
  }

  void SetMethod(const HttpRequest& request, Transfer& transfer) {
    curl_off_t size = 0;
    for (const Bytes& piece : request.body) size += static_cast<curl_off_t>(piece.size());
    if (request.method == "PUT" || request.method == "POST") {
      curl_easy_setopt(curl_, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(curl_, CURLOPT_INFILESIZE_LARGE, size);
      curl_easy_setopt(curl_, CURLOPT_READFUNCTION, SendBody);
      curl_easy_setopt(curl_, CURLOPT_READDATA, &transfer);
      curl_easy_setopt(curl_, CURLOPT_SEEKFUNCTION, RewindBody);
      curl_easy_setopt(curl_, CURLOPT_SEEKDATA, &transfer);
    } else if (request.method == "HEAD") {
      curl_easy_setopt(curl_, CURLOPT_NOBODY, 1L);
    }
    curl_easy_setopt(curl_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

  CURL* const curl_;
};

HttpClient::HttpClient() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);  // once a process
  SWARM_CHECK(started == CURLE_OK, "libcurl does not start");
}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Handle> HttpClient::Take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Handle>();
  std::unique_ptr<Handle> handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

void HttpClient::GiveBack(std::unique_ptr<Handle> handle) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(handle));
}

Result<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  std::unique_ptr<Handle> handle = Take();
  auto response = handle->Send(request);
  GiveBack(std::move(handle));
  return response;
}

bool IsLocalHost(const std::string& url) {
  std::string_view host = url;
  if (const std::size_t scheme = host.find("://"); scheme != host.npos)
    host.remove_prefix(scheme + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  if (host.starts_with('[')) {
    host = host.substr(0, host.find(']') + 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  // The last two are where EKS and ECS hand out credentials.
  for (const std::string_view local :
       {"localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"}) {
    if (host == local) return true;
  }
  const bool four_numbers = host.find_first_not_of("0123456789.") == host.npos;
  return four_numbers && host.starts_with("127.");
}

}  // namespace swarm::storage::s3
