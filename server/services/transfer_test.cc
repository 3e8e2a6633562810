#include "server/services/transfer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kiln::server {
namespace {

// `text` in slices of `step` bytes, as a network might deliver it.
grpc::ByteBuffer Split(const std::string& text, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < text.size(); i += step) slices.emplace_back(text.substr(i, step));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Joined(const WritePart& part) {
  std::string text;
  for (absl::string_view piece : part.pieces) text.append(piece.data(), piece.size());
  return text;
}

TEST(TransferTest, ChunksAreFoundWhereverTheyAreCut) {
  v1::WriteRequest request;
  request.set_chunk(std::string(1000, 'a') + std::string(1000, 'b'));
  const std::string wire = request.SerializeAsString();
  for (size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}, wire.size()}) {
    const auto part = ParseWritePart(Split(wire, step));
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_FALSE(part->header.has_value());
    EXPECT_EQ(part->size, 2000u);
    EXPECT_EQ(Joined(*part), request.chunk()) << step;
  }
}

TEST(TransferTest, Header) {
  v1::WriteRequest request;
  request.mutable_header()->mutable_buffer()->set_handle(5);
  request.mutable_header()->set_bytes(uint64_t{1} << 40);
  const auto part = ParseWritePart(Split(request.SerializeAsString(), 3));
  ASSERT_TRUE(part.ok());
  ASSERT_TRUE(part->header.has_value());
  EXPECT_EQ(part->header->buffer().handle(), 5u);
  EXPECT_EQ(part->header->bytes(), uint64_t{1} << 40);
  EXPECT_EQ(part->size, 0u);
}

TEST(TransferTest, AnEmptyChunkIsAChunk) {
  v1::WriteRequest request;
  request.set_chunk("");
  const auto part = ParseWritePart(Split(request.SerializeAsString(), 100));
  ASSERT_TRUE(part.ok());
  EXPECT_FALSE(part->header.has_value());
  EXPECT_EQ(part->size, 0u);
}

TEST(TransferTest, EveryTruncationIsMalformed) {
  v1::WriteRequest request;
  request.set_chunk("some bytes");
  const std::string wire = request.SerializeAsString();
  for (size_t length = 0; length < wire.size(); ++length) {
    const auto part = ParseWritePart(Split(wire.substr(0, length), 4));
    ASSERT_FALSE(part.ok()) << length;
    EXPECT_EQ(DetailOf(part.status())->code(), v1::MALFORMED_MESSAGE);
  }
}

TEST(TransferTest, LengthsThatLieAreMalformed) {
  EXPECT_FALSE(ParseWritePart(Split(std::string("\x12\xff\xff\xff\xff\x0f", 6), 2)).ok());
  EXPECT_FALSE(ParseWritePart(Split(std::string("\x0a\xff\xff\xff\xff\x0f", 6), 2)).ok());
  EXPECT_FALSE(ParseWritePart(Split(std::string("\x0a\xff\xff\x03", 4), 4)).ok());
  EXPECT_FALSE(ParseWritePart(Split("\x0f\x0f", 4)).ok());
}

TEST(TransferTest, HeaderAndChunkTogetherAreMalformed) {
  v1::WriteRequest header, chunk;
  header.mutable_header()->set_bytes(1);
  chunk.set_chunk("x");
  EXPECT_FALSE(ParseWritePart(Split(header.SerializeAsString() + chunk.SerializeAsString(), 100)).ok());
}

TEST(TransferTest, OneMessageHasOneChunk) {
  v1::WriteRequest header, chunk;
  header.mutable_header()->set_bytes(1);
  chunk.set_chunk("x");
  for (const v1::WriteRequest& part : {header, chunk}) {
    const std::string wire = part.SerializeAsString();
    EXPECT_TRUE(ParseWritePart(Split(wire, 100)).ok());
    const absl::Status status = ParseWritePart(Split(wire + wire, 100)).status();
    EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).code(), v1::MALFORMED_MESSAGE) << status;
  }
}

}  // namespace
}  // namespace kiln::server
