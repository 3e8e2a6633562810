#include "server/port/local_peer.h"

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

}  // namespace
}  // namespace kiln::server
