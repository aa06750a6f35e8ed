#include "worker/trainer/log/event_records.h"

#include <bit>

#include "base/hash.h"

namespace swarm::trainer {
namespace {

// The wire types of protobuf: how a field's bytes are to be read.
enum Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void AddLittleEndian(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

void AddVarint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void AddKey(std::string& to, std::uint64_t field, Wire wire) { AddVarint(to, field << 3 | wire); }

void AddNumber(std::string& to, std::uint64_t field, std::uint64_t value) {
  AddKey(to, field, kVarint);
  AddVarint(to, value);
}

void AddBytes(std::string& to, std::uint64_t field, std::string_view bytes) {
  AddKey(to, field, kLengthDelimited);
  AddVarint(to, bytes.size());
  to += bytes;
}

std::uint32_t MaskedCrc(std::string_view bytes) {
  const std::uint32_t crc = Crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8;
}

std::string Framed(const std::string& message) {
  std::string record;
  AddLittleEndian(record, message.size(), 8);
  AddLittleEndian(record, MaskedCrc(record), 4);
  record += message;
  AddLittleEndian(record, MaskedCrc(message), 4);
  return record;
}

std::string BeginEvent(double time) {
  std::string event;
  AddKey(event, 1, kFixed64);
  AddLittleEndian(event, std::bit_cast<std::uint64_t>(time), 8);
  return event;
}

}  // namespace

std::string FileVersionRecord(double time) {
  std::string event = BeginEvent(time);
  AddBytes(event, 3, "brain.Event:2");
  return Framed(event);
}

std::string SessionStartRecord(double time, std::uint64_t step) {
  std::string session, event = BeginEvent(time);
  AddNumber(session, 1, 1);
  AddNumber(event, 2, step);
  AddBytes(event, 7, session);
  return Framed(event);
}

std::string ScalarsRecord(double time, std::uint64_t step, std::span<const Scalar> scalars) {
  std::string summary, event = BeginEvent(time);
  for (const Scalar& scalar : scalars) {
    std::string value;
    AddBytes(value, 1, scalar.tag);
    AddKey(value, 2, kFixed32);
    AddLittleEndian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)), 4);
    AddBytes(summary, 1, value);
  }
  AddNumber(event, 2, step);
  AddBytes(event, 5, summary);
  return Framed(event);
}

}  // namespace swarm::trainer
