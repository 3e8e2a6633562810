#include "server/port/local_peer.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace kiln::server {
namespace {

TEST(LocalPeer, AddressesOfLoopback) {
  for (const char* address : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(IsLoopbackAddress(address)) << address;
  for (const char* address : {"", "10.0.0.1", "128.0.0.1", "1.0.0.127", "::", "::2", "fe80::1", "::ffff:10.0.0.1",
                              "localhost", "127.1", "127.0.0.1 ", "127.0.0.1:80"})
    EXPECT_FALSE(IsLoopbackAddress(address)) << address;
}

TEST(LocalPeer, PeersAsGrpcSaysThem) {
  for (const char* peer :
       {"ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "ipv6:%5B::1%5D:4711", "ipv6:%5B::ffff:127.0.0.1%5D:4711"})
    EXPECT_TRUE(IsLoopbackPeer(peer)) << peer;
  for (const char* peer : {"", "inproc", "unix:", "unix:/tmp/127.0.0.1:1", "ipv4:10.0.0.1:4711", "ipv4:127.0.0.1",
                           "ipv6:[::2]:1", "ipv6:::1:1", "ipv6:[::1]", "127.0.0.1:1", "fd:127.0.0.1:1"})
    EXPECT_FALSE(IsLoopbackPeer(peer)) << peer;
}

TEST(HttpPeers, AnAddressCountsBehindTheSecretAlone) {
  const HttpPeers peers, others;
  EXPECT_EQ(peers.AddressOf(peers.Saying("127.0.0.1")), "127.0.0.1");
  EXPECT_EQ(peers.AddressOf(peers.Saying("")), "");
  std::string spoilt = peers.Saying("127.0.0.1");
  spoilt[10] = spoilt[10] == 'a' ? 'b' : 'a';
  for (const std::string& value :
       {others.Saying("127.0.0.1"), spoilt, std::string(), std::string("127.0.0.1"), std::string(" 127.0.0.1"),
        peers.Saying("").substr(0, 64), peers.Saying("").substr(0, 64) + "127.0.0.1"})
    EXPECT_EQ(peers.AddressOf(value), std::nullopt) << value;
}

}  // namespace
}  // namespace kiln::server
