"""The stream of commands: what a client asks for without waiting for it.

Commands are numbered, take effect in order, and most are not answered. One that fails
poisons what it would have made or written; whoever uses that is told the first cause.

The stream outlives its connection: what no answer has confirmed is kept, and sent again on
the next one. The server runs each number once (proto/kiln/v1/kernel_service.proto). The same when
the caller's token counts no more, and the token's file has another. Else it ends, as it does with
its session, or when the server has not been reachable for as long as a lease; sooner where
connections to it are refused, for then it is gone, and the session with it.

Two threads: gRPC's takes what is sent from a queue, ours reads answers and reconnects.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, Deque, Dict, List, Optional, Tuple

import grpc

from kiln import commands

from kiln.transport import wire
from kiln.transport.addresses import Patience
from kiln.transport.reach import Reach
from kiln.errors import ConnectionLost, Internal, KilnError, NoServer, Unavailable, from_rpc, from_status
from kiln.session import Session, token_in
from kiln.v1 import kernel_service_pb2

SUBMIT = "KernelService.Submit"
# What DeviceService.List calls it.
FEATURE = "submit"

# What may be unconfirmed before the sender waits; an answer is asked for at a quarter of it.
MOST_COMMANDS = 1024
MOST_BYTES = 16 << 20

AGAIN = 0.1  # seconds between two attempts to reconnect
TIMEOUT = 0.3  # seconds for one

log = logging.getLogger("kiln")


class Answer(Future):
    """The SubmitResponse of one command, once it has come; its KilnError if it failed."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()  # a command cannot be taken back
        self.data: List[bytes] = []


class BadAnswer(Internal):
    """One that cannot be: nothing that this server says of the stream is to be believed."""


class Stream:
    """Made by Pipeline (pipeline.py). Threads: any. Nothing here waits, but close()."""

    def __init__(self, channel: Any, session: Session, target: str, before: Optional["Stream"]):
        """`before` is the one that ended, if there was one: under one session commands are numbered on."""
        self._begin = wire.stub(channel, SUBMIT, raw_request=True)
        self._channel, self._session, self._target = channel, session, target
        self._token = token_in(session.metadata)
        goes_on = before is not None and before._token == self._token
        last = before.last if goes_on else 0
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
        self._failures: Deque[KilnError] = deque(before._failures if goes_on else (), maxlen=1024)
        # One of them that poison cannot tell: what the program would have written, only its graph says.
        self._stale: Optional[KilnError] = before._stale if goes_on else None
        self._connect()
        self._reader = threading.Thread(target=self._run, name="kiln-stream", daemon=True)
        self._reader.start()

    @property
    def idle(self) -> bool:
        """Whether all that was sent has ended, and what has become of it is known."""
        done = self._seen == self.last or self.ended is not None
        return done and not self.untold and self._stale is None

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
        self._shown = self._session.under(self._token)
        self._call = self._begin(iter(self._line.get, None), metadata=self._shown)

    def _run(self) -> None:
        error: KilnError = ConnectionLost("the stream to %s has ended" % self._target)
        try:
            error = self._read_on(error)
            if error.code == "SESSION_EXPIRED" and not self._closing.is_set():
                self._session.replace(self._token)
        except (grpc.RpcError, ValueError):  # no new session; the channel is closed
            pass
        except BadAnswer as lie:
            error = lie
            self._call.cancel()
        except Exception as fault:
            error = Internal("the stream to %s cannot be read: %r" % (self._target, fault))
            self._call.cancel()
            raise
        finally:  # or who waits would wait for ever
            self._line.put(None)
            self._end(error)

    def _read_on(self, ended: KilnError) -> KilnError:
        """Why it is over: `ended`, or what the server says."""
        deadline = None
        while True:
            error = ended
            try:
                for response in self._call:
                    deadline = None
                    self._take(response)
            except grpc.RpcError as failed:
                error = self._session.heed(from_rpc(failed, self._target))
            deadline = deadline or time.monotonic() + self._session.granted
            self._line.put(None)  # what gRPC's thread waits for
            if not may_pass(error) and not self._is_known_anew(error):
                return error
            why = self._wait_for_server(deadline)
            if why is not None:
                return self._lost(error, why)
            log.info("the stream to %s goes on", self._target)
            with self._lock:
                for answer in self._asked.values():
                    answer.data.clear()  # it comes again, from its beginning
                self._connect()

    def _is_known_anew(self, error: KilnError) -> bool:
        """Whether it ended for a token that counts no more, in place of which there is another by now."""
        return error.code == "NOT_AUTHENTICATED" and self._session.under(self._token, anew=True) != self._shown

    def _lost(self, error: KilnError, why: str) -> KilnError:
        """`error`, which may say that there is no server any more."""
        if why and isinstance(error, NoServer):
            error = NoServer("no server is at %s: %s" % (self._target, why), remedy="is kilnd running there?")
        elif why:
            error = ConnectionLost("the connection to %s was lost, and no server is there now: %s" % (self._target, why),
                                   remedy="is kilnd running there? What was in its memory is gone")  # fmt: skip
            error.gone = True
        return error

    def _wait_for_server(self, deadline: float) -> Optional[str]:
        """None once it is reachable; else, after the deadline, the client's end or the server's, why it is gone, or ""."""
        patience = Patience(self._target)
        while not self._closing.wait(AGAIN) and time.monotonic() < deadline:
            reach = Reach(self._channel)
            try:
                if reach.within(TIMEOUT):
                    return None
            except ValueError:  # the channel is closed
                return ""
            finally:
                reach.end()
            why = patience.gone()
            if why:
                return why
        return ""

    def _end(self, error: KilnError) -> None:
        with self._lock:
            self.ended = error
            asked = list(self._asked.values())
            self.untold = not asked and not all(commands.frees(message) for _, message in self._kept)
            self._asked.clear()
        for answer in asked:
            answer.set_exception(error)

    # -- answers

    def _take(self, response: kernel_service_pb2.SubmitResponse) -> None:
        event = response.WhichOneof("event")
        if event == "welcome":
            return self._give_up(response.welcome.answers_lost)
        if response.command_id <= self._seen:  # it comes a second time
            return
        self._check(response.command_id)
        answer = self._asked.get(response.command_id)
        if event == "data" and answer is not None:
            answer.data.append(response.data)
        if response.more:
            return
        error = None
        if event == "failed":
            failed = response.failed
            error = from_status(failed.status, failed.tag, failed.cause_command_id or response.command_id)
        if answer is None:
            if error is not None:
                self._note(response.command_id, error)
            return self._confirm(response.command_id)
        if error is None:
            error, self._stale = self._stale, None
        if error is not None:
            error.own = error.command == response.command_id
            self._told(error)
        self._confirm(response.command_id)  # now that all is known of it, for then it may be idle
        if error is None:
            answer.set_result(response)
        else:
            answer.set_exception(error)

    def _check(self, command: int) -> None:
        """Answers come in the order of commands: who waits for one that was passed over would wait for ever."""
        with self._lock:
            first, last = next(iter(self._asked), command), self.last
        if command > last:
            raise BadAnswer("the server answers command %d, and the last is %d" % (command, last))
        if first < command:
            raise BadAnswer("the server answers command %d, and has not answered %d" % (command, first))

    def _note(self, command: int, error: KilnError) -> None:
        """A failure that nobody waits for."""
        with self._lock:
            message = self._kept[command - self._kept[0][0]][1]
            if not commands.frees(message):
                self._failures.append(error)
                if error.code == "NEED_GRAPH":
                    self._stale = error
                return
        # What was to be freed is not there, so nothing is amiss; but the others were left, too.
        rest = commands.without(message, error.handle)
        if rest is not None:
            self.send(rest)

    def _told(self, error: KilnError) -> None:
        """Somebody hears of `error`: that is enough."""
        with self._lock:
            rest = [failure for failure in self._failures if failure.command != error.command]
            self._failures.clear()
            self._failures.extend(rest)
            if self._stale is not None and self._stale.command == error.command:
                self._stale = None

    def take_failure(self) -> Optional[KilnError]:
        """The first failure of a command that nobody waited for; those after it are forgotten."""
        with self._lock:
            first = self._failures[0] if self._failures else None
            self._failures.clear()
            return first

    def _confirm(self, command: int) -> None:
        """All up to `command` have ended."""
        with self._lock:
            self._seen = command
            self._asked.pop(command, None)
            while self._kept and self._kept[0][0] <= command:
                self._kept_bytes -= len(self._kept.popleft()[1])

    def _give_up(self, lost: int) -> None:
        """The answers up to `lost` are no longer all there."""
        with self._lock:
            given_up = [self._asked.pop(command) for command in sorted(self._asked) if command <= lost]
        for answer in given_up:
            error = ConnectionLost("the connection to %s was lost with an answer" % self._target, remedy="read it again")
            answer.set_exception(error)


def may_pass(error: KilnError) -> bool:
    """Whether a stream that ended so may be taken up again."""
    lost = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED)
    return error.detail is None and (isinstance(error, Unavailable) or error.status in lost)
