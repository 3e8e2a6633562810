"""The calls of random sequences (sequences.py) that compile and run programs.

Each picks what it works on, says what the model makes of it, and calls.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

import kiln
from sequence_model import SIZE, STOPPED, Cause, Expectations, Memory, Slot, first, first_of_call
from sequence_programs import (BROKEN, KINDS, LONG, LONG_ADDS, LONG_STEP, LONG_STEPS, MOST, PARTIAL, Kind, any_kind, long,
                               split)  # fmt: skip

_EXECUTE = "KernelService.Execute"
# Seconds that a run of some 40 ms may take.
SHORT = (0.0002, 0.002, 0.01, 0.03)


class Runs:
    """Of a Sequence, which has what is not here."""

    random: Any
    client: Any
    devices: List[str]
    slots: List[Slot]
    model: Expectations

    def begin_runs(self) -> None:
        self._kinds: Dict[str, Kind] = dict(KINDS)
        self._programs: Dict[Tuple[Any, ...], Any] = {}
        self._recordings: List[Tuple[Any, str, List[Tuple[str, int, int]]]] = []

    # -- what there is

    def program(self, name: str, device: str, graph: Any = None) -> Any:
        """Compiled by whoever needs it first; the server has most already."""
        key = (name, device)
        if key not in self._programs:
            self._programs[key] = self.client.compile(graph or self._kinds[name].graph, device=device)
        return self._programs[key]

    def add_result(self, buffer: Any, values: np.ndarray, cause: Optional[Cause], made: bool, device: str) -> None:
        if buffer is not None:
            self.slots.append(Slot(buffer, Memory(np.zeros(SIZE, np.int32) if cause else values, cause, made), device))

    # -- compiling

    def compile(self) -> None:
        name = "new %d" % self.model.calls
        self._kinds[name] = any_kind(self.random)
        self.program(name, self.random.choice(self.devices))

    def compile_broken(self) -> None:
        """It concerns nobody else, and is told at once, whatever else is under way."""
        code, graph = self.random.choice(BROKEN)
        device = self.random.choice(self.devices)
        if self.random.random() < 0.2:
            code, graph, device = "UNKNOWN_DEVICE", KINDS["one"].graph, "CPU:9"
        self.model.raises(self.model.failure(code), lambda: self.client.compile(graph, device=device), told=False)

    # -- on one device

    def execute(self) -> None:
        name, device = self.random.choice(list(self._kinds)), self.random.choice(self.devices)
        kind, program = self._kinds[name], self.program(name, device)
        slots = {letter: self.pick(device) for letter in kind.names}
        values = {letter: slot.values.copy() for letter, slot in slots.items()}
        arguments = {letter: slot.buffer for letter, slot in slots.items()}
        if "y" in slots and self.random.random() < 0.2:  # by value
            values["y"] = arguments["y"] = self.numbers()
            del slots["y"]
        written = [slots["x"]] if kind.update is not None else []
        overwrites = written and program.signature.parameters[0].overwritten and slots["x"].memory.made
        cause = first(*(slot for letter, slot in slots.items() if not (overwrites and letter == "x")))
        made = all(slot.memory.made for slot in slots.values())
        if cause is None and written and len(slots) == 2 and slots["x"].meets(slots["y"]):
            cause = self.model.failure("BAD_ARGUMENT", tagged=True)
        wanted = [] if cause else [result(values) for result in kind.results]
        if kind.results and self.random.random() < 0.4:  # waited for
            cause = cause and cause._replace(tag=None if cause.order == self.model.calls else cause.tag)
            found = self.model.asked(cause, lambda: program(**arguments), *written)
            if cause is None:
                for array, want in zip(found if len(wanted) > 1 else [found], wanted):
                    self.model.same(array, want)
        else:
            run = self.model.sent(
                cause, lambda: program.run(list(arguments.values()), out="buffers", tag=self.model.tag), *written)  # fmt: skip
            for at, buffer in enumerate(run.results if run is not None else ()):
                self.add_result(buffer, None if cause else wanted[at], cause, made, device)
        if cause is None and kind.update is not None:
            slots["x"].overwrite(kind.update(values))

    def fail(self) -> None:
        """Refused by the server: an argument too short, of memory whose size only it looks at."""
        name, device = self.random.choice(("two", "update")), self.random.choice(self.devices)
        x, short = self.pick(device), self.client.allocate(4, device=device)
        cause = self.model.either(first(x), self.model.failure("BUFFER_SIZE_MISMATCH", tagged=True))
        program, written = self.program(name, device), [x] if name == "update" else []
        run = self.model.sent(
            cause, lambda: program.run([x.buffer, short], out="buffers", tag=self.model.tag), *written)  # fmt: skip
        for buffer in run.results if run is not None else ():
            self.add_result(buffer, None, cause, False, device)
        if name == "two" and run is not None and self.random.random() < 0.5:
            self.read(self.slots[-1])

    def partial(self) -> None:
        """Sizes that come with the call, of which one in three does not fit: known when it runs."""
        updates, device = self.random.random() < 0.5, self.random.choice(self.devices)
        program = self.program("partial %s" % updates, device, PARTIAL[updates])
        x, y = self.pick(device, whole=False), self.pick(device)
        m, n = x.size, self.random.choice((1, x.size, self.random.randrange(1, MOST + 1), MOST + 1))
        faults = ["BAD_ARGUMENT"] if max(m, n) > MOST else ["OUT_OF_BOUNDS"] if n > m else []
        faults += ["BAD_ARGUMENT"] if updates and x.meets(y) else []
        cause = self.model.either(first(x, y), self.model.failure(*faults, tagged=True))
        made = x.memory.made and y.memory.made and (n <= m <= MOST)
        values = y.values + x.values[:n].sum().astype(np.int32)
        arguments = program._slots((x.buffer, y.buffer), {"m": m, "n": n})
        run = self.model.sent(
            cause, lambda: program.run(arguments, out="buffers", tag=self.model.tag), *([y] if updates else []))  # fmt: skip
        if run is not None and not updates:
            self.add_result(run.results[0], values, cause, made, device)
        if cause is None and updates:
            y.overwrite(values)

    # -- calls that are no commands

    def call(self) -> None:
        """With a deadline: it goes as a call, and either is in time or is not; it writes nothing."""
        device = self.random.choice(self.devices)
        slot, program = self.pick(device), self.program("one", device)
        if slot.cause:
            return self.model.raises(slot.cause, lambda: program(slot.buffer, timeout=60), told=False)
        timeout = self.random.choice((60, 1e-5))
        try:
            self.model.same(program(slot.buffer, timeout=timeout), slot.values * 3 + 1)
        except kiln.DeadlineExceeded:
            assert timeout != 60

    def stop(self) -> None:
        """A run in place that takes longer than its deadline, or that is cancelled."""
        way = self.random.choice(("program", "recording", "cancel", "split"))
        devices = self.on_several() if way == "split" else [self.random.choice(self.devices)]
        if not devices:
            return
        pick = self.pick if self.random.random() < 0.5 else self.make_whole
        xs, ys = ([pick(device) for device in devices] for _ in "xy")
        if any(x.meets(other) for at, x in enumerate(xs) for other in [*ys, *xs[:at]]):
            return
        cause, timeout = first_of_call(*xs, *ys), self.random.choice(SHORT)
        adds = LONG_ADDS
        if way == "recording":
            adds *= LONG_STEPS
            program = self.program("long step", devices[0], LONG_STEP)
            recording = self.client.record([(program, [kiln.Memory(0), kiln.Memory(1)])] * LONG_STEPS)

            def use(timeout: float) -> Any:
                return recording(xs[0].buffer, ys[0].buffer, timeout=timeout)
        elif way == "split":
            program = self.program("long %s" % devices, "", long(SIZE * len(devices), 1 << 20, devices))

            def use(timeout: float) -> Any:
                return program(shards(xs), shards(ys), timeout=timeout)
        else:
            program = self.program("long", devices[0], LONG)

            def use(timeout: float) -> Any:
                if way == "cancel" and timeout < 60:
                    return self.cancelled(program, xs[0].buffer, ys[0].buffer)
                return program(xs[0].buffer, ys[0].buffer, timeout=timeout)

        if cause:
            return self.model.raises(cause, lambda: use(60), told=False)
        try:
            use(timeout)
        except (kiln.DeadlineExceeded, kiln.Cancelled):
            return self.stopped(xs, adds)
        for x in xs:
            x.overwrite(x.values + np.int32(adds))

    def cancelled(self, program: Any, *arguments: Any) -> None:
        """A call that its client gives up, at once or a round trip later."""
        connection = self.client._connection
        connection.settle(_EXECUTE)
        request = b"".join(program._request(dict(enumerate(arguments)), False, False))
        metadata = connection.session.metadata
        future = connection.stub(_EXECUTE, raw_request=True).future(request, metadata=metadata)
        for _ in range(self.random.randrange(3)):
            self.client.describe(arguments[0])
        future.cancel()
        if future.cancelled():
            raise kiln.Cancelled("by the test")

    def stopped(self, xs: Sequence[Slot], adds: int) -> None:
        """What a stopped run has left: nothing, all, or poison. In the first case it may still come."""
        for x in xs:
            try:
                found = x.buffer.numpy()
            except kiln.KilnError as error:
                assert error.code in STOPPED.codes and error.tag is None, (error, error.tag)
                x.mark_poisoned(STOPPED)
                self.model.counts["stopped"] += 1
                continue
            new = found == x.values + np.int32(adds)
            if len(xs) == 1 and new.all():
                x.overwrite(found)
                continue
            # On several devices one may have ended, or be at it, and another not have begun.
            assert (new | (found == x.values)).all() if len(xs) > 1 else (found == x.values).all(), (found, x.values)
            for slot in [slot for slot in self.slots if slot.memory is x.memory]:
                self.slots.remove(slot)
                slot.buffer.free()

    # -- on several devices

    def on_several(self) -> List[str]:
        """Two devices or all, in any order; none if there is one."""
        several = self.random.sample(self.devices, self.random.choice((2, len(self.devices))) if len(self.devices) > 1 else 0)
        return several

    def several(self) -> None:
        """A program whose parameters are split: a call, which fails alone."""
        devices = self.on_several()
        if not devices:
            return
        updates = self.random.random() < 0.5
        key = "split %s %s" % (devices, updates)
        program = self.program(key, "", split(devices, updates))
        xs, ys = ([self.pick(device) for device in devices] for _ in "xy")
        v = self.random.choice((0, 3, MOST, MOST + 1))
        met, own = first_of_call(*xs, *ys), None
        shared = any(x.meets(other) for at, x in enumerate(xs) for other in [*ys, *xs[:at]])
        if v > MOST or (updates and shared):
            own = self.model.failure("BAD_ARGUMENT")
        # Which of two faults a call is told is not promised.
        cause = met._replace(codes=met.codes + own.codes) if met and own else met or own
        arrays = not updates and self.random.random() < 0.5

        def use() -> Any:
            return program(shards(xs), shards(ys), v=v, out="arrays" if arrays else "buffers")

        if cause:
            return self.model.raises(cause, use, told=False)
        found = use()
        if updates:
            values = [x.values + y.values * np.int32(v) for x, y in zip(xs, ys)]
            for x, given in zip(xs, values):
                x.overwrite(given)
            return
        products = [x.values * y.values + np.int32(v) for x, y in zip(xs, ys)]
        total = sum(x.values for x in xs)
        if arrays:
            self.model.same(found[0], np.concatenate(products))
            return self.model.same(found[1], total)
        for at, device in enumerate(devices):
            self.add_result(found[0].shards[at], products[at], None, True, device)
            self.add_result(found[1].shards[at], total.copy(), None, True, device)

    # -- recordings

    def record(self) -> None:
        """Updates of one of up to three buffers by another, in a row; to be replayed on its device."""
        device = self.random.choice(self.devices)
        steps = []
        for _ in range(self.random.randrange(1, 5)):
            x, y = self.random.sample(range(3), 2)
            steps.append((self.random.choice(("update", "replace", "partial True")), x, y))
        used = sorted({at for _, *both in steps for at in both})
        steps = [(name, used.index(x), used.index(y)) for name, x, y in steps]
        arguments = []
        for name, x, y in steps:
            partial = name.startswith("partial")
            program = self.program(name, device, PARTIAL[True] if partial else None)
            # Of partial's it is y that is written.
            memory = {"x": kiln.Memory(y if partial else x), "y": kiln.Memory(x if partial else y)}
            arguments.append((program, {**memory, "m": SIZE, "n": kiln.Integer(0)} if partial else memory))
        recording = self.client.record(arguments)
        assert (len(recording.buffers), recording.integers) == (len(used), int(any(name[0] == "p" for name, *_ in steps)))
        self._recordings.append((recording, device, steps))

    def record_broken(self) -> None:
        """A program with results has no place in a recording, nor has a buffer that is read and written by two names."""
        device = self.random.choice(self.devices)
        name, at = self.random.choice((("one", [0]), ("update", [0, 0])))
        steps = [(self.program(name, device), [kiln.Memory(number) for number in at])]
        self.model.raises(self.model.failure("BAD_ARGUMENT"), lambda: self.client.record(steps), told=False)

    def replay(self) -> None:
        if not self._recordings:
            return self.record()
        recording, device, steps = self.random.choice(self._recordings)
        elsewhere = len(self.devices) > 1 and self.random.random() < 0.1
        slots = [self.pick(self.random.choice(self.devices) if elsewhere else device) for _ in recording.buffers]
        integers = [self.random.choice((1, SIZE, SIZE + 1, MOST + 1))] * recording.integers
        read, overwritten = [slot for slot in slots if not slot.memory.made], []
        for name, x, y in steps:
            # A size that comes with the call is taken for its greatest, which nothing has overwritten.
            read += [slots[y]] if name[0] == "p" or y not in overwritten else []
            read += [slots[x]] if name != "replace" and x not in overwritten else []
            overwritten += [x] if name == "replace" else []
        faults = ["BUFFER_DEVICE_MISMATCH"] if any(slot.device != device for slot in slots) else []
        faults += ["BAD_ARGUMENT" for _, x, y in steps if slots[x].meets(slots[y])]
        if recording.integers and integers[0] > SIZE:
            faults.append("BAD_ARGUMENT" if integers[0] > MOST else "OUT_OF_BOUNDS")
        cause = self.model.either(first(*read), self.model.failure(*faults))
        self.model.asked(cause, lambda: recording.run([slot.buffer for slot in slots], integers),
                         *(slots[x] for _, x, _ in steps))  # fmt: skip
        for name, x, y in steps if cause is None else ():
            into, by = slots[x], slots[y].values.copy()
            adds = by[: integers[0]].sum().astype(np.int32) if name[0] == "p" else by
            into.overwrite(by - np.int32(7) if name == "replace" else into.values + adds)


def shards(slots: Sequence[Slot]) -> Any:
    return kiln.Shards([slot.buffer for slot in slots], 0)
