"""Random sequences of client calls, held against a model that does them one after the other in numpy.

    .venv/bin/python tests/python/sequences/sequences.py --seconds=600 --seed=1

compile, execute, in place, failing, stopped, freed, made anew, recorded; on one device and on four; by
a client with a stream and by one without. sequence_model.py says what is expected, sequence_runs.py
has the calls that run programs, sequence_programs.py the programs.

Each sequence has a client of its own, and what it asks for is the same for the same seed, which a
failure names together with the calls. (What a stopped run leaves is a race's to decide, and what
is asked for after it may depend on that.) At its end the server has no buffer left.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import sys
import time
from typing import Any, Iterable, Iterator, List, Optional

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]

import support
import numpy as np

import kiln
from sequence_model import SIZE, Expectations, Memory, Slot, first
from sequence_runs import Runs

STEPS = 60
# More than goes with commands.
LARGE = 300_000


class Sequence(Runs):
    def __init__(self, address: str, seed: int, devices: List[str], steps: int = STEPS):
        self.random, self.devices, self.steps = random.Random(seed), devices, steps
        stream = self.random.random() < 0.75
        lease = 60 if stream or self.random.random() < 0.5 else 0
        self.client = kiln.connect(address, lease=lease, stream=stream)
        self.model = Expectations(self.client, stream)
        self.slots: List[Slot] = []
        self.said: List[str] = ["a stream" if stream else "no stream"]
        self.begin_runs()

    def run(self) -> None:
        with self.client:
            for _ in range(self.steps):
                self.model.calls += 1
                use = self.choose()
                self.said.append("%d %s" % (self.model.calls, use.__name__))
                use()
            for slot in self.slots:
                self.read(slot)
            self.model.fence()

    def choose(self) -> Any:
        if len(self.slots) < 3:
            return self.make
        several = 2 if len(self.devices) > 1 else 0
        kinds = [(self.make, 4), (self.write, 4), (self.fill, 5), (self.copy, 3), (self.view, 2), (self.large, 1),
                 (self.read_any, 3), (self.free, 6), (self.fence, 2), (self.refused, 1), (self.collective, 1 + several),
                 (self.compile, 2), (self.compile_broken, 1), (self.execute, 8), (self.fail, 2), (self.partial, 3),
                 (self.call, 1), (self.stop, 3), (self.record, 1), (self.record_broken, 1), (self.replay, 3),
                 (self.several, 2 * several)]  # fmt: skip
        return self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]

    # -- choices

    def numbers(self, count: int = SIZE) -> np.ndarray:
        return np.array([self.random.randrange(-1000, 1000) for _ in range(count)], np.int32)

    def pick(self, device: Optional[str] = None, whole: bool = True) -> Slot:
        """A slot of SIZE elements, or of any number; a new one where there is none."""
        # What works on several would else hardly ever be well.
        healthy = self.random.random() < 0.5
        there = [slot for slot in self.slots if device in (None, slot.device) and (slot.size == SIZE or not whole)
                 and not (healthy and slot.cause)]  # fmt: skip
        return self.random.choice(there) if there else self.make(device, SIZE)

    # -- memory

    def make_whole(self, device: str) -> Slot:
        return self.make(device, SIZE)

    def make(self, device: Optional[str] = None, size: Optional[int] = None) -> Slot:
        device, size = device or self.random.choice(self.devices), size or self.random.choice((SIZE, SIZE, SIZE, 20))
        if self.random.random() < 0.5:
            values = self.numbers(size)
            slot = Slot(self.client.buffer(values, device=device), Memory(values.copy()), device)
        else:
            slot = Slot(self.client.empty(size, "int32", device=device), Memory(np.zeros(size, np.int32)), device)
        self.slots.append(slot)
        return slot

    def free(self) -> None:
        slot = self.slots.pop(self.random.randrange(len(self.slots)))
        if self.random.random() < 0.5:
            slot.buffer.free()
            try:
                slot.buffer.numpy()
            except kiln.BufferFreed:
                return
            raise AssertionError("it was freed")

    def write(self) -> None:
        slot = self.pick(whole=False)
        start = self.random.randrange(slot.size) if self.random.random() < 0.3 else 0
        values = self.numbers(self.random.randrange(1, slot.size - start + 1) if start else slot.size)
        self.overwrite(slot, values, lambda: slot.buffer.write(values, start=start), start)

    def fill(self) -> None:
        slot, value = self.pick(whole=False), self.random.randrange(-9, 9)
        self.overwrite(slot, np.full(slot.size, value, np.int32), lambda: slot.buffer.fill(value))

    def overwrite(self, slot: Slot, values: np.ndarray, use: Any, start: int = 0) -> None:
        """What was not made has no bytes: then the cause is why not."""
        cause = None if slot.memory.made else slot.cause
        self.model.sent(cause, use)
        if cause is None:
            slot.overwrite(values, start)

    def copy(self) -> None:
        source, target = self.pick(), self.pick()
        cause = first(source, *(() if target.memory.made else (target,)))
        self.model.sent(cause, lambda: target.buffer.copy_from(source.buffer), target)
        if cause is None:
            target.overwrite(source.values.copy())

    def view(self) -> None:
        """Of poisoned elements it is made; a command then says so."""
        slot = self.pick(whole=False)
        count = SIZE if slot.size > SIZE else self.random.randrange(1, slot.size + 1)
        start = self.random.randrange(slot.size - count + 1)
        shown = Slot(None, slot.memory, slot.device, slot.part.start + start, count)
        cause = shown.cause if self.model.stream else None
        shown.buffer = self.model.sent(cause, lambda: slot.buffer.view((count,), start=start))
        self.slots.append(shown)

    def large(self) -> None:
        """What is too large for commands goes in calls, between them."""
        slot = self.pick()
        values = np.full(LARGE, self.model.calls, np.int32)
        values[-1] = self.random.randrange(1000)
        with self.client.buffer(values, device=slot.device) as buffer:
            cause = slot.cause
            self.model.sent(cause, lambda: buffer.copy_from(slot.buffer, start=3, count=SIZE))
            if cause and self.model.stream:
                self.model.raises(cause, buffer.numpy, told=False)
                buffer.fill(2, start=3, count=SIZE)
            values[3 : 3 + SIZE] = (2 if self.model.stream else values[0]) if cause else slot.values
            self.model.same(buffer.numpy(), values)

    def read_any(self) -> None:
        self.read(self.pick(whole=False))

    def read(self, slot: Slot) -> None:
        if slot.cause:
            return self.model.raises(slot.cause, slot.buffer.numpy)
        self.model.same(slot.buffer.numpy(), slot.values)

    def fence(self) -> None:
        self.model.fence()

    def refused(self) -> None:
        """What this side refuses never leaves it."""
        slot = self.pick()
        program = self.program("one", slot.device)
        uses = [lambda: program(slot.buffer.view((2, 4))), lambda: slot.buffer.write(np.zeros(3, np.int32)),
                lambda: slot.buffer.fill(0.5), lambda: slot.buffer.read(7, 2)]  # fmt: skip
        if len(self.devices) > 1:
            other = self.random.choice([device for device in self.devices if device != slot.device])
            uses.append(lambda: self.program("one", other)(slot.buffer))
        if slot.cause:
            return
        for use in uses:
            try:
                use()
            except kiln.KilnError as error:
                assert error.status is None or error.detail is None, error
                continue
            raise AssertionError("it was not refused")

    # -- several devices

    def collective(self) -> None:
        """All reduced, or the first's given to all; now and then one of them is too short."""
        devices = self.random.sample(self.devices, self.random.randrange(1, len(self.devices) + 1))
        slots = [self.pick(device) for device in devices]
        if len({id(slot.memory) for slot in slots}) < len(slots):
            return
        wait, reduces, op = self.random.random() < 0.5, self.random.random() < 0.7, self.random.choice(("sum", "max"))
        buffers = [slot.buffer for slot in slots]
        cause = first(*slots) if reduces else first(slots[0], *(slot for slot in slots if not slot.memory.made))
        if self.random.random() < 0.2:
            at = self.random.randrange(len(slots))
            buffers[at] = self.client.allocate(4, device=devices[at])
            others = [*slots[:at], *slots[at + 1 :]]
            read = others if reduces else [slot for slot in others if slot is slots[0] or not slot.memory.made]
            cause = self.model.either(first(*read), self.model.failure("OUT_OF_BOUNDS"))
        if len(buffers[0].shape) == 1 and buffers[0].nbytes == 4:
            return  # what the first is, the tensor is

        def use() -> Any:
            if reduces:
                return self.client.all_reduce(buffers, op=op, wait=wait)
            return self.client.broadcast(buffers[0], buffers, wait=wait)

        if wait and cause:
            return self.model.raises(cause, use, told=False)
        self.model.sent(cause, use, *(slot for slot, buffer in zip(slots, buffers) if buffer is slot.buffer))
        if cause is None:
            values = slots[0].values.copy()
            for slot in slots[1:] if reduces else ():
                values = values + slot.values if op == "sum" else np.maximum(values, slot.values)
            for slot in slots:
                slot.overwrite(values)


def run(address: str, devices: List[str], seeds: Iterable[int], steps: int = STEPS) -> "collections.Counter[str]":
    """Runs the sequences of these seeds; AssertionError with that of one that went wrong. How many "sequences" there
    were, and calls by their names; how often one "failed", and was "stopped" so that poison is left."""
    done: "collections.Counter[str]" = collections.Counter()
    with kiln.connect(address, stream=False) as watcher:
        for seed in seeds:
            sequence = Sequence(address, seed, devices, steps)
            try:
                sequence.run()
                # A device may keep one of its own: a little room for what programs keep between their kernels. What a
                # sequence left would add up.
                held = lambda: [device.buffers for device in watcher.devices()]  # noqa: E731
                assert support.eventually(lambda: max(held()) <= 1), "%s buffers are left" % held()
            except Exception as error:
                text = "--seed=%d on %d devices: %s: %s\n%s" % (
                    seed, len(devices), type(error).__name__, error, ", ".join(sequence.said))  # fmt: skip
                raise AssertionError(text) from error
            done.update(sequence.model.counts, sequences=1)
            done.update(said.split()[1] for said in sequence.said[1:])
    return done


def seeds(first: int, least: int, seconds: float) -> Iterator[int]:
    """`least` of them, and then as many as there is time for."""
    end, seed = time.monotonic() + seconds, first
    while seed < first + least or time.monotonic() < end:
        yield seed
        seed += 1


def on_devices(count: int, first: int, least: int, seconds: float) -> "collections.Counter[str]":
    with support.running("--cpu_devices=%d" % count) as server:
        return run(server.address, ["CPU:%d" % number for number in range(count)], seeds(first, least, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="on one device and on four together")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--least", type=int, default=1, help="sequences, however long they take")
    arguments = parser.parse_args()
    for count in (1, 4):
        done = on_devices(count, arguments.seed, arguments.least, arguments.seconds / 2)
        print("%d sequences on %d devices, from seed %d on" % (done.pop("sequences"), count, arguments.seed))
        print("  " + ", ".join("%s %d" % row for row in sorted(done.items())), flush=True)


if __name__ == "__main__":
    main()
