// The endpoint for real networks: gRPC over mutual TLS 1.3.
//
// Threads: OnMessage is called on gRPC's threads, OnPeerUp and OnPeerDown on a thread of the
// endpoint. endpoint.h says which calls can overlap.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "worker/net/endpoint.h"
#include "worker/net/grpc/dial_slots.h"
#include "worker/net/grpc/revocations.h"
#include "worker/net/wire/receive_buffers.h"

namespace swarm::net {

/// PEM files. They are read again every second. Connections that are made two seconds after a
/// change use the new files; open connections stay. If the files do not fit together (a file is
/// half written, or names another program), the old set stays in use.
struct TlsFiles {
  std::string ca;           ///< the authority that signs the peers' certificates
  std::string certificate;  ///< this program's, with its chain
  std::string key;          ///< this program's
};

/// The same in memory, never read again: for a program that talks to many jobs, each of which has
/// its own authority.
struct TlsPem {
  std::string ca;
  std::string certificate;
  std::string key;
};

/// Through which others reach an endpoint that nobody can dial.
struct RelayAt {
  WorkerId id;                               ///< an endpoint that `relays`
  std::vector<protocol::Address> addresses;  ///< of it, which are tried in turns
};

/// Has more than 15 fields: each is one choice of the caller, with its default.
struct GrpcOptions {
  WorkerId self;
  /// host:port; port 0: any free one. 0.0.0.0 and [::] both stand for all addresses of both
  /// families. Empty: nobody can dial the endpoint.
  std::string listen = "0.0.0.0:0";
  std::optional<RelayAt> relay;  ///< without `listen`; none: the endpoint accepts no calls then
  bool relays = false;           ///< others that nobody can dial meet here
  /// host:port that others dial; an IPv6 address may lack its brackets. Empty: `listen` with its
  /// real port.
  std::string advertise;
  std::string scope = "cluster";             ///< where that address is valid: "cluster" or "global"
  std::optional<protocol::Address> gateway;  ///< another way to this endpoint; none: there is none
  std::string job;                           ///< UID; peers of another job are refused

  std::optional<TlsFiles> tls;    ///< needed, or
  std::optional<TlsPem> tls_pem;  ///< this, unless
  bool plaintext = false;         ///< no TLS: for experiments on one machine only
  /// The workers whose certificates count no more. Looked at every second: their connections are
  /// closed, and they get no others. Null: none.
  std::shared_ptr<Revocations> revocations;

  std::size_t control_window_bytes = 8u << 20;
  std::size_t data_window_bytes = 64u << 20;
  std::size_t payload_bytes_max = 1u << 30;
  /// Received; at most kHeaderBytesMax of wire.h, which is also the cap of what is sent.
  std::size_t header_bytes_max = 4u << 20;
  std::size_t piece_bytes = 1u << 20;  ///< larger payloads travel in pieces
  std::size_t unfinished_bytes_max = 4ull
                                     << 30;  ///< of messages that are arriving, all peers together
  std::size_t idle_buffer_bytes_max = 256u << 20;  ///< receive buffers kept for reuse
  /// Replaces the last two bounds by common ones; several endpoints may share it. Null: of its own.
  std::shared_ptr<ReceiveBuffers> receive_buffers;

  /// Runs all work that is not gRPC's; several endpoints may share it. Null: a loop of its own.
  std::shared_ptr<Loop> loop;

  /// Bounds the dials under way; several endpoints may share it. Null: 64 of its own.
  std::shared_ptr<DialSlots> dial_slots;

  /// A connection that Send has dialled is closed when nothing was sent or received on it for so
  /// long, or up to half as long again.
  Duration idle_max = std::chrono::minutes(1);

  /// The longest pause between two tries to reach a peer that does not answer.
  Duration redial_max = std::chrono::seconds(3);

  /// Distinguishes this process from earlier processes of the same id: it must grow. 0: the wall
  /// clock, in nanoseconds.
  std::uint64_t incarnation = 0;
};

class GrpcEndpoint final : public Endpoint {
 public:
  /// Listens. `handler` must outlive the endpoint.
  /// Errors: kInvalidArgument (an option; a certificate that does not name `self`), kNotFound (a
  /// file), kUnavailable (the port is taken, or `listen` is not ours).
  static Result<std::unique_ptr<GrpcEndpoint>> Create(const GrpcOptions& options,
                                                      EndpointHandler* handler);
  /// Waits up to ten seconds for a call of the handler that is under way. A handler that does not
  /// return by then breaks its contract, and the process ends.
  ~GrpcEndpoint() override;

  void Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Disconnect(const WorkerId& peer) override;
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) override;
  std::vector<protocol::Address> addresses() const override;
  Traffic traffic() const override;
  std::map<WorkerId, protocol::Link> links() const override;

 private:
  class Core;
  explicit GrpcEndpoint(std::shared_ptr<Core> core);
  // Shared with the streams, whose last reactions may run while this is being destroyed.
  const std::shared_ptr<Core> core_;
};

}  // namespace swarm::net
