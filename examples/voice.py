"""When does somebody speak? Silero's detector hears 32 ms at a time; a plot of its probability over time.

    ./dev run & python examples/voice.py        # KILN_ADDR: another server than localhost:7437

The signal is made here: silence, noise, a tone, and vowels as a throat makes them, the
harmonics of a gliding pitch, each as loud as the resonances of the mouth let it be.
"""
import importlib.util, os, pathlib

os.environ.setdefault("DEV", "KILN")
import kiln.tinygrad
import numpy as np
from tinygrad import Tensor, TinyJit, dtypes
from tinygrad.nn.onnx import OnnxRunner

MODEL = pathlib.Path(importlib.util.find_spec("silero_vad").origin).parent / "data" / "silero_vad_op18_ifless.onnx"
RATE, FRAME, CONTEXT = 16000, 512, 64  # samples a second, a step, and of the step before
RESONANCES = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "e": (530, 1840, 2480), "u": (300, 870, 2240)}

def vowel(name, seconds=0.2):
    time = np.arange(int(seconds * RATE)) / RATE
    pitch = 120 + 25 * np.sin(2 * np.pi * 2.5 * time)
    turns = np.cumsum(pitch) / RATE
    loudness = lambda hertz: sum(1 / (1 + ((hertz - f) / 90) ** 2) for f in RESONANCES[name])
    sound = sum(loudness(k * pitch) * np.cos(2 * np.pi * k * turns) / k**0.5 for k in range(1, 30))
    return 0.3 * sound / abs(sound).max() * np.sin(np.pi * time / seconds) ** 0.5

def signal():
    """The parts by name, in order, and all of them in a row over a faint hiss."""
    random = np.random.default_rng(0)
    parts = {"silence": np.zeros(FRAME * 8), "noise": 0.1 * random.standard_normal(FRAME * 16),
             "tone": 0.3 * np.sin(2 * np.pi * 440 * np.arange(FRAME * 16) / RATE),
             "speech": np.concatenate([vowel(name) for name in "aiueai"])[: FRAME * 36], "end": np.zeros(FRAME * 20)}
    sound = np.concatenate(list(parts.values()))
    return [name for name, part in parts.items() for _ in range(len(part) // FRAME)], \
        (sound + 0.002 * random.standard_normal(len(sound))).astype(np.float32)

def listen(sound):
    """The probability of speech in each frame; the detector's memory stays on the server."""
    model, state = OnnxRunner(MODEL), Tensor.zeros(2, 1, 128).contiguous().realize()
    rate = Tensor(RATE, dtype=dtypes.int64).realize()

    @TinyJit
    def step(x):
        probability, after = model({"input": x, "state": state, "sr": rate}).values()
        return probability.realize(state.assign(after))

    padded = np.concatenate([np.zeros(CONTEXT, np.float32), sound])
    return np.array([step(Tensor(padded[None, start:start + CONTEXT + FRAME]).realize()).item()
                     for start in range(0, len(sound), FRAME)])

def main():
    parts, sound = signal()
    heard = listen(sound)
    for n in range(0, len(parts), 2):
        print("%4.2f s  %-8s %4.2f %s" % (n * FRAME / RATE, parts[n], heard[n], "#" * round(40 * heard[n])))
    return heard

if __name__ == "__main__": main()
