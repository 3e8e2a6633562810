"""Where servers are: what connect() takes for an address, and why nobody answers at one.

    "localhost:7437"     a host and a port; "[::1]:7437" of IPv6
    "unix:/run/kilnd"    a socket's file
    "a:7437,b:7437"      several servers that do the same: the first that answers, the others in its place

What else gRPC knows ("dns:///a:7437", "ipv4:…") it takes, too. Where it comes to no connection, gRPC says little
and waits long. So the address is asked once more without it: is anybody there, and do both speak TLS or neither?
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from typing import Any, List, Optional, Sequence, Tuple, Union

from kiln.errors import InvalidArgument, KilnError, NoServer

# For so many seconds a server that is not there may just be beginning; and one that is there, to answer.
BEGINNING = 1.2
ANSWERING = 10.0
# Seconds between two looks while a server is waited for, and for one.
EVERY = 0.2
LOOK = 1.0
# What gRPC resolves by itself.
_SCHEMES = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6|xds|vsock|passthrough):")
_OF_THE_WEB = re.compile(r"(\w+)://(?:[^@/]*@)?([^/]*)")
_HOST_AND_PORT = re.compile(r"(\[[^\]]+\]|[^:\[\]]+):(\d+)")
# How a client begins in HTTP/2, with settings that change nothing.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
# Of what answers to it, HTTP/2's frame of settings has this at 3; a record of TLS begins so.
_SETTINGS, _OF_TLS = b"\4", (b"\x15\x03", b"\x16\x03")


def addresses_of(target: Union[str, Sequence[str]]) -> List[str]:
    """One or more addresses; InvalidArgument for what is none."""
    if isinstance(target, str):
        target = [target] if target.startswith(("ipv4:", "ipv6:")) else target.split(",")  # gRPC has lists of its own
    found = [one.strip() for one in target]
    for one in found:
        _check(one)
    return found


def _check(address: str) -> None:
    web = _OF_THE_WEB.match(address)
    if web and web.group(1) not in ("dns", "unix", "xds"):
        place = web.group(2) if _HOST_AND_PORT.fullmatch(web.group(2)) else (web.group(2) or "host") + ":7437"
        more = ", tls=True" if web.group(1) in ("https", "grpcs") else ""
        raise InvalidArgument("%s is an address of the web, and kilnd's has no %s://" % (address, web.group(1)),
                              remedy='kiln.connect("%s"%s)' % (place, more), code="BAD_ARGUMENT")  # fmt: skip
    if _SCHEMES.match(address):
        return
    if not address:
        raise InvalidArgument("an address is empty", remedy='"host:port", or several: "a:7437,b:7437"',
                              code="BAD_ARGUMENT")  # fmt: skip
    place = _HOST_AND_PORT.fullmatch(address)
    if place is None:
        host = "[%s]" % address if address.count(":") > 1 and "[" not in address else address.rstrip(":").split(":")[0]
        raise InvalidArgument("%s is no host and port" % address, code="BAD_ARGUMENT",
                              remedy='"%s:7437", where 7437 is what kilnd --listen says' % host)  # fmt: skip
    if not 0 < int(place.group(2)) < 65536:
        raise InvalidArgument("%s has a port that there is not" % address, remedy="1 to 65535", code="BAD_ARGUMENT")


def _sockets(address: str) -> List[Tuple[Any, Any]]:
    """(family, where) of each way there; none where only gRPC knows any. socket.gaierror of an unknown host."""
    if address.startswith("unix:"):
        path = address[len("unix:") :]
        return [(socket.AF_UNIX, path[2:] if path.startswith("//") else path)]
    place = _HOST_AND_PORT.fullmatch(re.sub(r"^(dns:(///)?|ipv4:|ipv6:)", "", address))
    if place is None:
        return []
    found = socket.getaddrinfo(place.group(1).strip("[]"), int(place.group(2)), type=socket.SOCK_STREAM)
    return [(row[0], row[4]) for row in found]


def _connect(family: Any, where: Any) -> socket.socket:
    end = socket.socket(family, socket.SOCK_STREAM)
    end.settimeout(LOOK)
    try:
        end.connect(where)
    except BaseException:
        end.close()
        raise
    return end


def absent(address: str) -> str:
    """Why nobody can be there, as the machines on the way say at once; "" where somebody may be."""
    try:
        ways = _sockets(address)
    except OSError as error:
        return "its host is not known (%s)" % error.strerror
    except UnicodeError as error:  # of a name that can be no host's
        return "its host is not known (%s)" % error
    for family, where in ways:
        try:
            with _connect(family, where) as end:
                if end.getsockname() == end.getpeername() != "":
                    continue  # with itself: the system gave this end the port that it looks for
        except (ConnectionRefusedError, FileNotFoundError):
            continue
        except OSError:
            pass
        return ""
    return "it refuses connections" if ways else ""


class Patience:
    """Of who waits for a server."""

    def __init__(self, address: str, seconds: Optional[float] = None, since: Optional[float] = None):
        """So many are waited for one that is not there; without, BEGINNING, which `since` (time.monotonic) has begun."""
        self._address = address
        begun = time.monotonic() if since is None or seconds is not None else since
        self._end = begun + (BEGINNING if seconds is None else seconds)
        self._asked = False

    def at_once(self) -> Optional[KilnError]:
        """As look(), where all patience was spent on others of a list; so that a long one takes no longer."""
        return self._nobody(self.gone()) if time.monotonic() >= self._end else None

    def _nobody(self, why: str) -> Optional[KilnError]:
        return NoServer("no server is at %s: %s" % (self._address, why), remedy="is kilnd running there?") if why else None

    def gone(self) -> str:
        """Why there is nobody to wait for any more; "" if there may be."""
        why = absent(self._address)
        return why if time.monotonic() >= self._end else ""

    def look(self, tls: bool) -> Optional[KilnError]:
        """As gone(), and asks who is there, once, whether he speaks TLS as this client does, or does not."""
        nobody = self._nobody(self.gone())
        if nobody is not None:
            return nobody
        if self._asked or absent(self._address):
            return None
        self._asked = True
        return _misunderstood(self._address, tls)


def _misunderstood(address: str, tls: bool) -> Optional[NoServer]:
    """What who answers there speaks, if it is not what this client does."""
    said = _answer_in_plain(address)
    if said and said[3:4] != _SETTINGS and not said.startswith(_OF_TLS):
        return NoServer("who answers at %s is no kilnd (it begins with %r)" % (address, said[:16]),
                        remedy="the port is that of kilnd --listen")  # fmt: skip
    if tls and said[3:4] == _SETTINGS:
        return NoServer("the server at %s speaks no TLS, and this client does" % address,
                        remedy="connect without tls=, and without KILN_TLS_CA in the environment")  # fmt: skip
    if not tls and (said.startswith(_OF_TLS) or (not said and _speaks_tls(address))):
        return NoServer("the server at %s speaks TLS, and this client does not" % address,
                        remedy="give connect() tls=True, or the file of those who sign the server's certificate")  # fmt: skip
    return None


def _answer_in_plain(address: str) -> bytes:
    for family, where in _sockets(address):
        try:
            with _connect(family, where) as end:
                end.sendall(_PREFACE)
                return end.recv(64)
        except OSError:
            continue
    return b""


def _speaks_tls(address: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # who it is, gRPC asks
    context.set_alpn_protocols(["h2"])
    for family, where in _sockets(address):
        try:
            with _connect(family, where) as end, context.wrap_socket(end):
                return True
        except ssl.SSLError as error:
            return "WRONG_VERSION" not in str(error) and "RECORD" not in str(error)
        except OSError:
            continue
    return False
