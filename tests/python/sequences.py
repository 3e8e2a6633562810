"""Random sequences of client calls, and a model that does them one after the other in numpy.

    .venv/bin/python tests/python/sequences.py --seconds=600 --seed=1

The model knows what each element of memory holds, and by which call it is spoilt. Its rule: what a
command that fails would have made or written is spoilt with the first cause, and so is what is made
from what is spoilt; elements that are overwritten by what succeeds, by a write, a fill or a copy, are
healthy again. Where nothing was made, nothing can be overwritten. A use that is waited for raises the cause; fence() raises the first that nobody
has been told. A call that is no command (it has a deadline) fails alone and spoils nothing.

Each sequence has a client of its own and is the same for the same seed, which a failure names.
"""

import argparse
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln

SIZE = 8  # elements, int32: sums and products wrap alike here and there


class Memory:
    """What a buffer's elements are, and the tags of the calls that spoilt them; or, not made, why not."""

    def __init__(self, values, cause=None, made=True):
        self.values, self.causes, self.made = values, [cause] * len(values), made


class Slot:
    """A Buffer of the client's and the part of a Memory that it shows."""

    def __init__(self, buffer, memory, device, start=0, count=SIZE):
        self.buffer, self.memory, self.device = buffer, memory, device
        self.part = slice(start, start + count)

    @property
    def cause(self):
        """The first of what spoils an element of it."""
        return earliest(self.memory.causes[self.part])

    def spoil(self, cause):
        self.memory.causes[self.part] = [there or cause for there in self.memory.causes[self.part]]


def earliest(causes):
    return min((cause for cause in causes if cause), key=lambda tag: int(tag.split()[1]), default=None)


def programs():
    """A new result of one parameter and of two; an update in place; all take int32[8]."""

    def one(x, y=None):
        return x * 3 + 1

    def two(x, y):
        return x * y + x

    made = {}
    for name, function, count in (("one", one, 1), ("two", two, 2)):
        graph = kiln.Graph()
        graph.output(function(*(graph.param("xy"[at], (SIZE,), "int32") for at in range(count))))
        made[name] = graph, function
    graph = kiln.Graph()
    x, y = (graph.param(name, (SIZE,), "int32") for name in "xy")
    graph.update(x, x + y)
    made["update"] = graph, lambda x, y: x + y
    return made


GRAPHS = programs()


class Sequence:
    def __init__(self, address, seed, devices, steps):
        self.random, self.steps = random.Random(seed), steps
        self.devices = devices
        self.client = kiln.connect(address, lease=60)
        self.programs = {name: self.client.compile(graph) for name, (graph, _) in GRAPHS.items()}
        update = self.programs["update"]
        self.recording = self.client.record([(update, [kiln.Memory(0), kiln.Memory(1)])] * 2)
        self.slots, self.untold, self.calls = [], [], 0

    def run(self):
        with self.client:
            for _ in range(self.steps):
                self.calls += 1
                self.choose()()
            for slot in self.slots:
                self.read(slot)
            self.fence()

    def choose(self):
        kinds = [(self.make, 3), (self.write, 2), (self.fill, 2), (self.copy, 2), (self.view, 1), (self.execute, 4),
                 (self.update, 3), (self.fail, 2), (self.replay, 1), (self.read_any, 2), (self.free, 2), (self.fence, 1),
                 (self.call, 1), (self.refused, 1), (self.gather_up, 1 if len(self.devices) > 1 else 0)]  # fmt: skip
        if len(self.slots) < 3:
            return self.make
        return self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]

    # -- choices

    def numbers(self, count=SIZE):
        return np.array([self.random.randrange(-1000, 1000) for _ in range(count)], np.int32)

    def pick(self, device=None, whole=True):
        """A slot, whole, or any that shows nothing spoilt; a new one where there is none."""
        there = [slot for slot in self.slots if device in (None, slot.device)
                 and (slot.buffer.size == SIZE or not whole and not slot.cause)]  # fmt: skip
        return self.random.choice(there) if there else self.make(device)

    def tag(self):
        return "call %d" % self.calls

    # -- what is expected

    def spoils(self, cause, *slots):
        """A command that nobody waits for ends with `cause`."""
        self.untold.append(cause)
        for slot in slots:
            slot.spoil(cause)

    def raises(self, cause, use, told=True):
        try:
            use()
        except kiln.KilnError as error:
            # A call of its own is answered with the cause, but knows nothing of commands.
            assert (error.code, error.tag) == ("BUFFER_SIZE_MISMATCH", cause if told else None), (cause, error, error.tag)
            if told:
                self.untold = [other for other in self.untold if other != cause]
            return
        raise AssertionError("nothing was raised: %s" % cause)

    def first(self, *slots):
        """The first cause of what is spoilt among them."""
        return earliest([slot.cause for slot in slots])

    # -- calls

    def make(self, device=None):
        device = device or self.random.choice(self.devices)
        if self.random.random() < 0.5:
            values = self.numbers()
            slot = Slot(self.client.buffer(values, device=device), Memory(values.copy()), device)
        else:
            slot = Slot(self.client.empty(SIZE, "int32", device=device), Memory(np.zeros(SIZE, np.int32)), device)
        self.slots.append(slot)
        return slot

    def write(self):
        slot = self.pick(whole=False)
        if self.random.random() < 0.3:
            start = self.random.randrange(slot.buffer.size)
            values = self.numbers(self.random.randrange(1, slot.buffer.size - start + 1))
        else:
            start, values = 0, self.numbers(slot.buffer.size)
        slot.buffer.write(values, start=start)
        self.overwritten(slot, start, values)

    def fill(self):
        slot, value = self.pick(whole=False), self.random.randrange(-9, 9)
        slot.buffer.fill(value)
        self.overwritten(slot, 0, np.full(slot.buffer.size, value, np.int32))

    def overwritten(self, slot, start, values):
        if not slot.memory.made:
            return self.spoils(slot.cause)
        slot.memory.values[slot.part][start : start + len(values)] = values
        begin = slot.part.start + start
        slot.memory.causes[begin : begin + len(values)] = [None] * len(values)

    def copy(self):
        source, target = self.pick(), self.pick()
        if source.memory is target.memory:
            return
        target.buffer.copy_from(source.buffer)
        if source.cause:
            self.spoils(self.first(source, *(() if target.memory.made else (target,))), target)
        else:
            self.overwritten(target, 0, source.memory.values[source.part].copy())

    def view(self):
        slot = self.pick()
        if slot.cause:
            return
        start = self.random.randrange(slot.buffer.size)
        count = self.random.randrange(1, slot.buffer.size - start + 1)
        view = slot.buffer.view((count,), start=start)
        self.slots.append(Slot(view, slot.memory, slot.device, slot.part.start + start, count))

    def arguments(self, name):
        return [self.pick(self.devices[0]) for _ in range(1 if name == "one" else 2)]

    def execute(self):
        name = self.random.choice(("one", "two"))
        slots, program = self.arguments(name), self.programs[name]
        cause = self.first(*slots)
        buffers = [slot.buffer for slot in slots]
        values = [slot.memory.values[slot.part] for slot in slots]
        if self.random.random() < 0.4:  # waited for
            if cause:
                return self.raises(cause, lambda: program(*buffers))
            return self.same(program(*buffers), GRAPHS[name][1](*values))
        (result,) = program.run(buffers, out="buffers", tag=self.tag()).results
        if cause:
            self.spoils(cause)
        made = all(slot.memory.made for slot in slots)
        memory = Memory(GRAPHS[name][1](*values) if not cause else np.zeros(SIZE, np.int32), cause, made)
        self.slots.append(Slot(result, memory, self.devices[0]))

    def update(self):
        x, y = self.arguments("update")
        if x.memory is y.memory:
            return
        cause = self.first(x, y)
        self.programs["update"].run([x.buffer, y.buffer], out="buffers", tag=self.tag())
        if cause:
            return self.spoils(cause, x)
        x.memory.values[x.part] += y.memory.values[y.part]

    def fail(self):
        """A command that the server refuses: an argument too short, of memory whose size only it looks at."""
        x, short, name = self.pick(self.devices[0]), self.client.allocate(4), self.random.choice(("update", "two"))
        cause = self.first(x) or self.tag()
        (*results,) = self.programs[name].run([x.buffer, short], out="buffers", tag=self.tag()).results
        self.spoils(cause, *([x] if name == "update" else []))
        if name == "two":
            self.slots.append(Slot(results[0], Memory(np.zeros(SIZE, np.int32), cause, made=False), self.devices[0]))
            if self.random.random() < 0.5:
                self.read(self.slots[-1])

    def replay(self):
        x, y = self.arguments("update")
        if x.memory is y.memory:
            return
        cause = self.first(x, y)
        if cause:
            self.raises(cause, lambda: self.recording(x.buffer, y.buffer))
            return x.spoil(cause)
        self.recording(x.buffer, y.buffer)
        x.memory.values[x.part] += 2 * y.memory.values[y.part]

    def call(self):
        """With a deadline: it goes as a call, and either is in time or is not; it writes nothing."""
        slot = self.pick(self.devices[0])
        if slot.cause:
            return self.raises(slot.cause, lambda: self.programs["one"](slot.buffer, timeout=60), told=False)
        try:
            timeout = self.random.choice((60, 1e-5))
            self.same(self.programs["one"](slot.buffer, timeout=timeout), slot.memory.values[slot.part] * 3 + 1)
        except kiln.DeadlineExceeded:
            assert timeout != 60

    def refused(self):
        """What this side refuses never leaves it."""
        slot = self.pick()
        for use in (lambda: self.programs["one"](slot.buffer.view((2, 4))), lambda: slot.buffer.write(np.zeros(3, np.int32)),
                    lambda: slot.buffer.fill(0.5), lambda: slot.buffer.read(7, 2)):  # fmt: skip
            if slot.cause:
                return
            try:
                use()
            except kiln.KilnError as error:
                assert error.status is None or error.detail is None, error
                continue
            raise AssertionError("it was not refused")

    def gather_up(self):
        slots = [self.pick(device) for device in self.devices]
        if len({id(slot.memory) for slot in slots}) < len(slots):
            return
        cause = self.first(*slots)
        self.client.all_reduce([slot.buffer for slot in slots], wait=False)
        if cause:
            self.spoils(cause, *slots)
            return
        total = sum(slot.memory.values[slot.part] for slot in slots)
        for slot in slots:
            slot.memory.values[slot.part] = total

    def read_any(self):
        self.read(self.pick(whole=False))

    def read(self, slot):
        if slot.cause:
            return self.raises(slot.cause, slot.buffer.numpy)
        self.same(slot.buffer.numpy(), slot.memory.values[slot.part])

    def free(self):
        slot = self.slots.pop(self.random.randrange(len(self.slots)))
        if self.random.random() < 0.5:
            slot.buffer.free()
        del slot

    def fence(self):
        if not self.untold:
            return self.client.fence()
        self.raises(self.untold[0], self.client.fence)
        self.untold = []

    def same(self, found, wanted):
        np.testing.assert_array_equal(found, wanted)


def run(address, devices, seeds, steps=40):
    """Runs the sequences of these seeds; AssertionError with that of one that went wrong. How many there were."""
    done = 0
    for seed in seeds:
        try:
            Sequence(address, seed, devices, steps).run()
        except Exception as error:
            text = "--seed=%d on %d devices: %s: %s" % (seed, len(devices), type(error).__name__, error)
            raise AssertionError(text) from error
        done += 1
    return done


def until(end, seed):
    while time.monotonic() < end:
        yield seed
        seed += 1


def on_devices(count, seeds):
    with support.running("--cpu_devices=%d" % count) as server:
        return run(server.address, ["CPU:%d" % number for number in range(count)], seeds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for count in (1, 4):
        done = on_devices(count, until(time.monotonic() + arguments.seconds / 2, arguments.seed))
        print("%d sequences on %d devices, from seed %d on" % (done, count, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
