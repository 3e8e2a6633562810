"""The stream of commands: what a client asks for without waiting for it.

Commands are numbered, take effect in order, and most are not answered. One that fails
spoils what it would have made or written; whoever uses that is told the first cause.

The stream outlives its connection: what no answer has confirmed is kept, and sent again on
the next one. The server runs each number once (proto/kiln/v1/kernel_service.proto). So it
ends only with its session, or when the server has not been there for as long as a lease.

Two threads: gRPC's takes what is sent from a queue, ours reads answers and reconnects.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, Deque, Dict, List, Optional, Tuple

import grpc

from kiln import commands, wire
from kiln.errors import ConnectionLost, KilnError, Unavailable, from_rpc, from_status
from kiln.session import Session
from kiln.v1 import kernel_service_pb2

SUBMIT = "KernelService.Submit"
# What DeviceService.List calls it.
FEATURE = "submit"

# What may be unconfirmed before the sender waits; an answer is asked for at a quarter of it.
MOST_COMMANDS = 1024
MOST_BYTES = 16 << 20

AGAIN = 0.1  # seconds between two attempts to reconnect
PATIENCE = 0.5  # seconds for one


class Answer(Future):
    """The SubmitResponse of one command, once it has come; its KilnError if it failed."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()  # a command cannot be taken back
        self.data: List[bytes] = []


class Stream:
    """Made by Pipeline (pipeline.py). Threads: any. Nothing here waits, but close()."""

    def __init__(self, channel: Any, session: Session, target: str, last: int):
        self._begin = wire.stub(channel, SUBMIT, raw_request=True)
        self._channel, self._session, self._target = channel, session, target
        self.token, self._metadata = session.token, session.metadata
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.ended: Optional[KilnError] = None
        self.untold = False  # it took commands with it that nobody waits for
        self.last = last  # the last command that was sent
        self._seen = last  # all answers up to this command's have come
        # Sent, and perhaps not there; those that an answer is asked of; how much was sent since the last of these.
        self._kept: Deque[Tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._asked: Dict[int, Answer] = {}
        self._unasked, self._unasked_bytes = 0, 0
        # Of commands that nobody waits for.
        self.failures: Deque[KilnError] = deque(maxlen=1024)
        # One of them that poison cannot tell: what the program would have written, only its graph says.
        self.stale: Optional[KilnError] = None
        self._connect()
        self._reader = threading.Thread(target=self._run, name="kiln-stream", daemon=True)
        self._reader.start()

    @property
    def idle(self) -> bool:
        """Whether all that was sent has ended, and what has become of it is known."""
        done = self._seen == self.last or self.ended is not None
        return done and not self.untold and self.stale is None

    @property
    def full(self) -> bool:
        return len(self._kept) >= MOST_COMMANDS or self._kept_bytes >= MOST_BYTES

    def send(self, command: bytes, answer: Optional[Answer] = None) -> None:
        """KilnError if the stream has ended."""
        with self._lock:
            if self.ended is not None:
                raise self.ended
            self.last += 1
            self._unasked += 1
            self._unasked_bytes += len(command)
            asks = 4 * self._unasked > MOST_COMMANDS or 4 * self._unasked_bytes > MOST_BYTES or answer is not None
            if asks:
                self._unasked, self._unasked_bytes = 0, 0
            if answer is not None:
                self._asked[self.last] = answer
            message = command + commands.tail(self.last, self._seen, asks)
            self._kept.append((self.last, message))
            self._kept_bytes += len(message)
            self._line.put(message)

    def ask(self, command: bytes) -> Answer:
        answer = Answer()
        self.send(command, answer)
        return answer

    def close(self, timeout: Optional[float]) -> None:
        """Ends the stream when all that was sent has ended, or after `timeout`. Twice is once."""
        self._closing.set()
        self._line.put(None)
        self._reader.join(timeout)
        self._call.cancel()

    # -- the connection

    def _connect(self) -> None:
        """A new one, and on it all that may not be there. Under the lock, but for the first."""
        self._line: "queue.SimpleQueue[Optional[bytes]]" = queue.SimpleQueue()
        self._line.put(commands.hello(self._seen))
        for _, message in self._kept:
            self._line.put(message)
        self._call = self._begin(iter(self._line.get, None), metadata=self._metadata)

    def _run(self) -> None:
        deadline = None
        while True:
            error: KilnError = ConnectionLost("the stream to %s has ended" % self._target)
            try:
                for response in self._call:
                    deadline = None
                    self._take(response)
            except grpc.RpcError as failed:
                error = self._session.heed(from_rpc(failed, self._target))
            except ValueError:  # the channel is closed
                break
            deadline = deadline or time.monotonic() + self._session.granted
            self._line.put(None)  # what gRPC's thread waits for
            if not may_pass(error) or not self._wait_for_server(deadline):
                break
            with self._lock:
                for answer in self._asked.values():
                    answer.data.clear()  # it comes again, from its beginning
                self._connect()
        self._end(error)

    def _wait_for_server(self, deadline: float) -> bool:
        """Whether it is reachable before the deadline, and before the client closes."""
        while not self._closing.wait(AGAIN) and time.monotonic() < deadline:
            ready = grpc.channel_ready_future(self._channel)
            try:
                ready.result(PATIENCE)
                return True
            except grpc.FutureTimeoutError:
                pass
            except ValueError:  # the channel is closed
                return False
            finally:
                ready.cancel()
        return False

    def _end(self, error: KilnError) -> None:
        with self._lock:
            self.ended = error
            asked = list(self._asked.values())
            self.untold = not asked and self._seen != self.last
            self._asked.clear()
        for answer in asked:
            answer.set_exception(error)

    # -- answers

    def _take(self, response: kernel_service_pb2.SubmitResponse) -> None:
        event = response.WhichOneof("event")
        if event == "welcome":
            return self._give_up(response.welcome.answers_lost)
        answer = self._asked.get(response.command_id)
        if event == "data" and answer is not None:
            answer.data.append(response.data)
        if response.more:
            return
        self._confirm(response.command_id)
        error = None
        if event == "failed":
            failed = response.failed
            error = from_status(failed.status, failed.tag, failed.cause_command_id or response.command_id)
        if answer is None and error is not None:
            self.failures.append(error)
            if error.code == "NEED_GRAPH":
                self.stale = error
        if answer is None:
            return
        if error is None:
            error, self.stale = self.stale, None
        if error is None:
            answer.set_result(response)
        else:
            answer.set_exception(error)

    def _confirm(self, command: int) -> None:
        """All up to `command` have ended."""
        with self._lock:
            self._seen = command
            self._asked.pop(command, None)
            while self._kept and self._kept[0][0] <= command:
                self._kept_bytes -= len(self._kept.popleft()[1])

    def _give_up(self, lost: int) -> None:
        """The answers up to `lost` are no longer all there."""
        for command in [command for command in self._asked if command <= lost]:
            error = ConnectionLost("the connection to %s was lost with an answer" % self._target, remedy="read it again")
            self._asked.pop(command).set_exception(error)


def may_pass(error: KilnError) -> bool:
    """Whether a stream that ended so may be taken up again."""
    lost = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED)
    return error.detail is None and (isinstance(error, Unavailable) or error.status in lost)
