"""A way to a server that is cut behind a frame of HTTP/2's, once; what comes after that gets through."""

import contextlib
import socket
import struct
import threading


class FrameProxy:
    """Hands on what comes to a port of its own to `port`. All connections break behind the server's `cut`th frame,
    counted over all of them; `was_cut` says whether there were so many."""

    def __init__(self, port, cut):
        self._port, self._cut = port, cut
        self._lock = threading.Lock()
        self._ends, self._threads = [], []
        self.frames = 0
        self.was_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._begin(self._accept)

    def close(self):
        _shut(self._listener)
        self._threads[0].join()
        self._break()
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _begin(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _break(self):
        with self._lock:
            ends = list(self._ends)
        _shut(*ends)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            with self._lock:
                self._ends += [client, server]
            with contextlib.suppress(OSError):  # it is broken already
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(self._carry, client, server)
            self._begin(self._carry_frames, server, client)

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        _shut(source, sink)

    def _carry_frames(self, source, sink):
        """Whole frames: nine bytes, the first three of which say how many follow."""
        with contextlib.suppress(OSError), source.makefile("rb") as stream:
            while len(head := stream.read(9)) == 9:
                length = struct.unpack(">I", b"\0" + head[:3])[0]
                sink.sendall(head + stream.read(length))
                with self._lock:
                    self.frames += 1
                    ends = self.frames == self._cut
                if ends:
                    self.was_cut = True
                    self._break()
        _shut(source, sink)


def _shut(*ends):
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
