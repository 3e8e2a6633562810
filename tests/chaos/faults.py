"""What is done to the server and to those round it. Each fault is a generator: up to its yield it begins, and gives how
long it lasts, in seconds; what comes after ends it, and looks whether it did what it should. What may fail meanwhile
stands in model.ALLOWED under its name.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import ssl
import subprocess
import sys
from typing import Callable, Dict, FrozenSet, Iterator, List, NamedTuple, Optional

import dying
import grpc
from cryptography import x509
from model import ALLOWED, Injection, Wrong
from watch import wait_for_zero
from world import DATED_SECONDS, PATIENCE, ROUTES, TENANTS, World, wire

import processes

Steps = Iterator[float]
Run = Callable[[World, random.Random, Injection], Steps]
FOLDER = pathlib.Path(__file__).resolve().parent


class Fault(NamedTuple):
    name: str
    run: Run
    tenants: Optional[FrozenSet[str]]  # who may notice; None: all

    @property
    def what(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


FAULTS: Dict[str, Fault] = {}


def fault(*tenants: str) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        FAULTS[run.__name__] = Fault(run.__name__, run, frozenset(tenants) or None)
        return run

    return add


# -- Connections


def ways(world: World, random: random.Random) -> List[str]:
    return random.sample(ROUTES, random.randrange(1, len(ROUTES) + 1))


@fault()
def cut(world: World, random: random.Random, injection: Injection) -> Steps:
    """Connections of some tenants break, several times."""
    for _ in range(random.randrange(1, 4)):
        for way in ways(world, random):
            world.routes[way].cut()
        yield random.uniform(0, 0.5)


@fault()
def cut_midway(world: World, random: random.Random, injection: Injection) -> Steps:
    """They break in the middle of an answer."""
    there = ways(world, random)
    for way in there:
        world.routes[way].cut_after(random.randrange(1, 40_000))
    yield random.uniform(0.5, 2)
    for way in there:
        world.routes[way].cut_after(None)


@fault()
def hole(world: World, random: random.Random, injection: Injection) -> Steps:
    """They break, and nobody gets through for a while."""
    there = ways(world, random)
    for way in there:
        world.routes[way].stop()
    yield random.uniform(0.5, 2.5)
    for way in there:
        world.routes[way].go_on()


@fault()
def delay(world: World, random: random.Random, injection: Injection) -> Steps:
    """What is sent comes later, as from far away."""
    there = ways(world, random)
    for way in there:
        world.routes[way].delay = random.uniform(0.02, 0.3)
    yield random.uniform(0.5, 2.5)
    for way in there:
        world.routes[way].delay = 0


# -- Processes


def strike(found: List[int], how: int, random: random.Random) -> List[int]:
    """One of these processes; none, if all are just gone."""
    random.shuffle(found)
    for process in found[:1]:
        try:
            os.kill(process, how)
        except ProcessLookupError:
            return []
    return found[:1]


@fault()
def kill_worker(world: World, random: random.Random, injection: Injection) -> Steps:
    """A compile worker is killed, several times."""
    for _ in range(random.randrange(1, 5)):
        strike(processes.compile_workers(world.server.process.pid), signal.SIGKILL, random)
        yield random.uniform(0, 0.3)


@fault()
def kill_zygote(world: World, random: random.Random, injection: Injection) -> Steps:
    """The process that compile workers are born of is killed."""
    strike(processes.zygotes(world.server.process.pid), signal.SIGKILL, random)
    yield 0.2


@fault()
def stop_worker(world: World, random: random.Random, injection: Injection) -> Steps:
    """Compile workers stop, and go on."""
    stopped = processes.compile_workers(world.server.process.pid)
    for process in stopped:
        strike([process], signal.SIGSTOP, random)
    yield random.uniform(0.5, 2)
    for process in stopped:
        strike([process], signal.SIGCONT, random)


@fault("apart")
def kill_executor(world: World, random: random.Random, injection: Injection) -> Steps:
    """The process that runs a tenant's programs is killed."""
    killed: List[int] = []
    for _ in range(random.randrange(1, 3)):
        killed += strike(processes.executors(world.server.process.pid), signal.SIGKILL, random)
        yield random.uniform(0, 0.5)
    # The next one may be kept waiting, and calls that need none succeed meanwhile.
    world.wait("there is another", lambda: set(processes.executors(world.server.process.pid)) - set(killed))


@fault()
def stop_executor(world: World, random: random.Random, injection: Injection) -> Steps:
    """It stops, and goes on."""
    stopped = strike(processes.executors(world.server.process.pid), signal.SIGSTOP, random)
    yield random.uniform(0.5, 2)
    strike(stopped, signal.SIGCONT, random)


@fault()
def stop_server(world: World, random: random.Random, injection: Injection) -> Steps:
    """kilnd stops, and goes on."""
    world.server.process.send_signal(signal.SIGSTOP)
    yield random.uniform(0.2, 2)
    world.server.process.send_signal(signal.SIGCONT)


@fault()
def kill_server(world: World, random: random.Random, injection: Injection) -> Steps:
    """kilnd is killed with -9, and begun again on its port and its folder."""
    left = processes.children(world.server.process.pid)
    world.kill_server()
    yield random.uniform(0, 1)
    world.begin_server()
    world.wait("what the server had begun ends with it", lambda: not any(map(lives, left)))


def lives(process: int) -> bool:
    """Whether it is one of kilnd's, and no other that has got its number, nor one that nobody has buried."""
    return any(row.number == process and row.words[0] == b"kilnd" for row in processes.all_processes())


@fault()
def client_dies(world: World, random: random.Random, injection: Injection) -> Steps:
    """A client is killed: with a session, in an upload, a download, a stream of commands, waiting for a compile."""
    # Past the ways that break, so that it dies of this alone.
    said = ["127.0.0.1:%d" % world.port, str(world.owner.authority), str(world.owner.secret_file("mortal"))]
    for phase in dying.PHASES if random.random() < 0.2 else [random.choice(list(dying.PHASES))]:
        with subprocess.Popen([sys.executable, str(FOLDER / "dying.py"), *said, phase], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as client:  # fmt: skip
            there = client.stdout.readline()
            if there != "there\n":
                raise Wrong("a client did not come to its %s: %s" % (phase, client.communicate()[1]))
            yield random.uniform(0, 0.2)
            client.kill()
    wait_for_zero(world, "after a client died", "mortal")


# -- The machine


@fault()
def fill_disk(world: World, random: random.Random, injection: Injection) -> Steps:
    """The disk of the program cache is full."""
    world.machine.fill_disk(True)
    yield random.uniform(1, 3)
    world.machine.fill_disk(False)


@fault("dated")
def clock_ahead(world: World, random: random.Random, injection: Injection) -> Steps:
    """The clock is set ahead by hours, past the end of a token; and right again."""
    world.machine.set_clock(DATED_SECONDS + random.randrange(10, 9999))
    turned_away(world, "dated", world.owner.secret("dated"))
    yield random.uniform(0.5, 2.5)
    world.machine.set_clock(0)


@fault()
def clock_back(world: World, random: random.Random, injection: Injection) -> Steps:
    """The clock is set back by hours, and stays so for a while; and right again."""
    world.machine.set_clock(-random.randrange(60, 9999))
    yield random.uniform(2.5, 3.5) / world.pace  # Abseil looks every two seconds
    world.machine.set_clock(0)


# -- Files


def read_again(world: World, random: random.Random, said: str, since: int) -> None:
    """The server looks by itself, and at once if it is told to."""
    if random.random() < 0.5:
        world.server.process.send_signal(signal.SIGHUP)
    world.wait("the server has read its files again", lambda: world.logged(said, since))


@fault()
def reload_tenants(world: World, random: random.Random, injection: Injection) -> Steps:
    """The file of tenants has other weights and another quota; and again."""
    for _ in range(2):
        since = len(world.server.log)
        world.owner.set_weight(random.choice(("alpha", "beta")), random.randrange(1, 9))
        world.owner.set_quota("greedy", "device_bytes", random.choice((2, 4, 6)) << 20)
        world.owner.write_tenants()
        read_again(world, random, "reloaded=true", since)
        yield random.uniform(0.1, 1)


@fault()
def bad_tenants(world: World, random: random.Random, injection: Injection) -> Steps:
    """The file of tenants has a fault: the one before counts, also for who is new."""
    since = len(world.server.log)
    world.owner.write_tenants(behind=random.choice(("tenant {", 'tenant { name: "" }', 'tenant { name: "alpha" }', "\0\1\2")))
    read_again(world, random, "event=tenants_refused", since)
    if status(world, "operator", world.owner.secret("operator")) is not None:
        raise Wrong("a file with a fault is in force")
    yield random.uniform(0.1, 1)
    since = len(world.server.log)
    world.owner.write_tenants()
    read_again(world, random, "reloaded=true", since)


def status(world: World, tenant: str, secret: str) -> Optional[grpc.StatusCode]:
    """What the server says to who shows this; None: it serves him."""
    channel = world.channel("127.0.0.1:%d" % world.port)
    try:
        request = wire.METHODS["SessionService.Usage"].request()
        wire.stub(channel, "SessionService.Usage")(request, timeout=PATIENCE, metadata=[("authorization", "Bearer " + secret)],
                                                   wait_for_ready=True)  # fmt: skip
        return None
    except grpc.RpcError as error:
        return error.code()
    finally:
        channel.close()


def turned_away(world: World, tenant: str, secret: str) -> None:
    world.wait("the token of %s counts no more" % tenant,
               lambda: status(world, tenant, secret) is grpc.StatusCode.UNAUTHENTICATED)  # fmt: skip


@fault()
def rotate_token(world: World, random: random.Random, injection: Injection) -> Steps:
    """A tenant gets a new token: beside the old one, or in its place."""
    tenant = random.choice([name for name in TENANTS if name not in ("operator", "dated")])
    injection.tenants = frozenset((tenant,))
    old, since, both = world.owner.secret(tenant), len(world.server.log), random.random() < 0.5
    new = world.owner.new_secret(tenant, keep_old=both)
    world.owner.write_tenants()
    read_again(world, random, "reloaded=true", since)
    if both and status(world, tenant, old) is not None:
        raise Wrong("of two tokens the old one does not count")
    world.wait("the new token counts", lambda: status(world, tenant, new) is None)
    yield random.uniform(0, 0.5)
    world.owner.hand_out(tenant)
    world.owner.drop_old(tenant)
    since = len(world.server.log)
    if both:
        yield random.uniform(0, 0.5)
        world.owner.write_tenants()
        read_again(world, random, "reloaded=true", since)
    turned_away(world, tenant, old)


@fault()
def expire_token(world: World, random: random.Random, injection: Injection) -> Steps:
    """A tenant's token ends, and gets a later end."""
    tenant = random.choice([name for name in TENANTS if name not in ("operator", "dated")])
    injection.tenants = frozenset((tenant,))
    since = len(world.server.log)
    world.owner.write_tenants(expired=tenant)
    read_again(world, random, "reloaded=true", since)
    turned_away(world, tenant, world.owner.secret(tenant))
    yield random.uniform(0.2, 1)
    since = len(world.server.log)
    world.owner.write_tenants()
    read_again(world, random, "reloaded=true", since)


def shown_serial(world: World) -> int:
    """Of the certificate that who is new is shown; 0 if there is none."""
    try:
        pem = ssl.get_server_certificate(("127.0.0.1", world.port), timeout=PATIENCE)
    except (OSError, ssl.SSLError):
        return 0
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


@fault()
def reload_tls(world: World, random: random.Random, injection: Injection) -> Steps:
    """The server gets another key and certificate."""
    serial = world.owner.new_certificate()
    yield random.uniform(0, 0.5)
    world.wait("the new certificate is shown", lambda: shown_serial(world) == serial)


@fault()
def bad_tls(world: World, random: random.Random, injection: Injection) -> Steps:
    """Its certificate is not its key's: the ones before are shown; then it gets new ones."""
    before = shown_serial(world)
    world.owner.bad_certificate()
    yield random.uniform(1.5, 3)
    if shown_serial(world) != before:
        raise Wrong("a certificate that is not the key's is in force")
    serial = world.owner.new_certificate()
    world.wait("the new certificate is shown", lambda: shown_serial(world) == serial)


def inject(world: World, name: str, seed: int, meanwhile: str = "") -> List[Injection]:
    """The fault from its beginning to its end, and another one from beginning to end as soon as it is there."""
    chosen, by = FAULTS[name], random.Random(seed)
    injected = [world.book.begin(name, chosen.tenants)]
    for seconds in chosen.run(world, by, injected[0]):
        world.ended.wait(seconds * world.pace)
        if meanwhile:
            injected += inject(world, meanwhile, seed + 1)
            meanwhile = ""
    world.book.heal(injected[0])
    return injected


assert set(FAULTS) == set(ALLOWED), "every fault has its row in the model: %s" % (set(FAULTS) ^ set(ALLOWED))
