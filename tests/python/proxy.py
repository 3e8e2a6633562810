"""A way to a server that is long, and that breaks when a test wants it to."""

import socket
import threading
import time


class Proxy:
    """Hands on what comes to a port of its own to `port`, `delay` seconds later each way: a distance, not a rate.
    Where nobody listens at `port`, who comes is let go."""

    def __init__(self, port, delay=0.0):
        self._port = port
        self.delay = delay  # may change; what is on its way keeps its own
        self._lock = threading.Lock()
        self._pairs = []
        self._open = threading.Event()
        self._open.set()
        self._left = None  # bytes of the server's until the next cut
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Breaks all connections; what is on the way is lost."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self.cuts += 1
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()

    def cut_after(self, count):
        """As cut(), once the server has sent so many bytes more."""
        self._left = count

    def stop(self):
        """As cut(); nobody gets through until go_on()."""
        self._open.clear()
        self.cut()

    def go_on(self):
        self._open.set()

    def close(self):
        """For good."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.wait()
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._carry, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, True), daemon=True).start()

    def _carry(self, source, sink, of_server):
        """Reads on while what was read waits for its time."""
        waiting, there = [], threading.Condition()

        def deliver():
            while True:
                with there:
                    there.wait_for(lambda: waiting)
                    due, data = waiting.pop(0)
                time.sleep(max(due - time.monotonic(), 0))
                try:
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)
                except OSError:
                    break
            try:
                source.shutdown(socket.SHUT_RDWR)  # or it would be read on, for nobody
            except OSError:
                pass

        threading.Thread(target=deliver, daemon=True).start()
        data = b"-"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            if of_server and self._left is not None:
                self._left -= len(data)
                if self._left < 0:
                    self._left = None
                    self.cut()
            with there:
                waiting.append((time.monotonic() + self.delay, data))
                there.notify()
