#include "server/port/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace kiln::server {
namespace {

absl::Status CannotListen(absl::string_view listen, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, ": ", why, "; is the port taken?"));
}

// -1 with errno.
int BindAt(const sockaddr* address, socklen_t size) {
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int on = 1, off = 0;
  if (address->sa_family != AF_UNIX) {
    // After a restart, although the connections before are not forgotten yet. Two servers at
    // once on one port remain impossible.
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // connections inherit it
  }
  if (address->sa_family == AF_INET6) {
    // All addresses of version 6 are those of version 4, too.
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
    setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, any ? &off : &on, sizeof(on));
  }
  if (bind(socket, address, size) == 0) return socket;
  const int fault = errno;
  close(socket);
  errno = fault;
  return -1;
}

int ListenAt(const sockaddr* address, socklen_t size) {
  const int socket = BindAt(address, size);
  if (socket < 0 || ::listen(socket, SOMAXCONN) == 0) return socket;
  const int fault = errno;
  close(socket);
  errno = fault;
  return -1;
}

// Where this process reaches what listens: what listens at all addresses is at loopback, too.
sockaddr_storage ReachableAddressOf(int listener, socklen_t* size = nullptr) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  if (size != nullptr) *size = length;
  if (address.ss_family == AF_INET) {
    in_addr& host = reinterpret_cast<sockaddr_in&>(address).sin_addr;
    if (host.s_addr == htonl(INADDR_ANY)) host.s_addr = htonl(INADDR_LOOPBACK);
  } else if (address.ss_family == AF_INET6) {
    in6_addr& host = reinterpret_cast<sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_UNSPECIFIED(&host)) host = in6addr_loopback;
  }
  return address;
}

// Of an address, what tells its socket from every other.
std::string NameOf(const sockaddr_storage& address, socklen_t size) {
  const auto bytes = [](const auto& part) { return std::string(reinterpret_cast<const char*>(&part), sizeof(part)); };
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return bytes(v4.sin_addr) + bytes(v4.sin_port);
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return bytes(v6.sin6_addr) + bytes(v6.sin6_port);
  }
  return std::string(reinterpret_cast<const char*>(&address), size);
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

void SetPort(sockaddr& address, int port) {
  const auto network = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = network;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = network;
  }
}

}  // namespace

ListeningSockets::ListeningSockets(ListeningSockets&& other) noexcept
    : descriptors_(std::exchange(other.descriptors_, {})), port_(other.port_), path_(std::exchange(other.path_, "")) {}

ListeningSockets::~ListeningSockets() {
  for (const int descriptor : descriptors_) close(descriptor);
  if (!path_.empty()) unlink(path_.c_str());
}

absl::StatusOr<ListeningSockets> ListeningSockets::Open(absl::string_view listen, const SocketAccess& access) {
  ListeningSockets made;
  absl::string_view name = listen;
  if (const bool hidden = absl::ConsumePrefix(&name, "unix-abstract:"); hidden || absl::ConsumePrefix(&name, "unix:")) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (!hidden && absl::StartsWith(name, "//")) name.remove_prefix(2);  // "unix:///path"
    if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
      return CannotListen(listen, absl::StrCat("a socket's path has 1 to ", sizeof(address.sun_path) - 1, " bytes"));
    }
    // A name in no file system begins with a 0, and ends where the address does.
    std::memcpy(address.sun_path + (hidden ? 1 : 0), name.data(), name.size());
    struct stat before = {};
    if (!hidden && stat(address.sun_path, &before) == 0 && S_ISSOCK(before.st_mode)) unlink(address.sun_path);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
    const int socket = BindAt(reinterpret_cast<const sockaddr*>(&address), size);
    if (socket < 0) return CannotListen(listen, std::strerror(errno));
    made.descriptors_.push_back(socket);
    if (!hidden) {
      made.path_.assign(name.data(), name.size());
      const absl::Status given = SetAccess(made.path_, access);
      if (!given.ok()) return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, ": ", given.message()));
    }
    if (::listen(socket, SOMAXCONN) != 0) return CannotListen(listen, std::strerror(errno));
    return made;
  }

  const size_t colon = name.rfind(':');
  absl::string_view host = name.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const std::string port(colon == absl::string_view::npos ? "" : name.substr(colon + 1));
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int fault = getaddrinfo(std::string(host).c_str(), port.c_str(), &wanted, &found); fault != 0) {
    return CannotListen(listen, gai_strerror(fault));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  int fault = 0;
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (made.port_ != 0) SetPort(*each->ai_addr, made.port_);
    const int socket = ListenAt(each->ai_addr, each->ai_addrlen);
    if (socket < 0) {
      // A machine may have names of a kind of address that it has not.
      if (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) {
        fault = errno;
        continue;
      }
      return CannotListen(listen, std::strerror(errno));
    }
    made.descriptors_.push_back(socket);
    if (made.port_ == 0) made.port_ = PortOf(socket);
  }
  if (made.descriptors_.empty()) return CannotListen(listen, std::strerror(fault));
  return made;
}

std::string PeerAddress(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "gone";
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(address).sin_addr, text, sizeof(text));
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(address).sin6_addr, text, sizeof(text));
  } else {
    return "unix";
  }
  return text;
}

std::string PeerName(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return NameOf(address, size);
}

int MakeProbe(int listener, std::string& name) {
  sockaddr_storage address = ReachableAddressOf(listener);
  const int probe = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return -1;
  // Of the address that it will connect to, by any port. A Unix socket is given a name that nobody has.
  socklen_t size = sizeof(sa_family_t);
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = 0;
    size = sizeof(sockaddr_in);
  } else if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = 0;
    size = sizeof(sockaddr_in6);
  }
  socklen_t own = sizeof(address);
  if (bind(probe, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      getsockname(probe, reinterpret_cast<sockaddr*>(&address), &own) == 0) {
    name = NameOf(address, own);
    return probe;
  }
  close(probe);
  return -1;
}

int ConnectProbe(int probe, int listener) {
  socklen_t size = 0;
  const sockaddr_storage address = ReachableAddressOf(listener, &size);
  return connect(probe, reinterpret_cast<const sockaddr*>(&address), size) == 0 ? 0 : errno;
}

std::optional<uint32_t> PeerUser(int descriptor) {
  int family = 0;
  socklen_t size = sizeof(family);
  // Other sockets have credentials, too: of nobody.
  if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family != AF_UNIX) return std::nullopt;
  ucred credentials = {};
  size = sizeof(credentials);
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return credentials.uid;
}

}  // namespace kiln::server
