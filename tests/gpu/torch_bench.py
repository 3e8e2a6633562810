"""torch_bench.py --json FILE: gpu_bench's rows by PyTorch (whose products are cuBLAS's) on its first card.

Each row is done in every way that is here, as single calls and as a CUDA graph of them, and the best counts; the row
says which that was. Seconds are by the card's clock, of replays by the host's. A way that does not work is told on
stderr; a row without any has an "error". Needs nothing but PyTorch; models want torchvision and transformers, too, and
are left out without.
"""

import argparse
import gc
import json
import sys
import time

import torch
import torch.nn.functional as functional

TURNS = 20
SIDE, LARGE = 4096, 256 << 20


def numbers(*shape, dtype=torch.float32):
    return (torch.randn(shape, device="cuda") * 0.05).to(dtype)


def compiled(function):
    """By torch.compile, which is asked when it is first called: where it does not work, that is that way's affair."""
    made = []

    def work(*arguments):
        if not made:
            made.append(torch.compile(function, dynamic=False))
        return made[0](*arguments)

    return work


def copy():
    a = numbers(LARGE)
    b = torch.empty_like(a)
    yield "copy_", lambda: b.copy_(a)


def multiply_add():
    a, b, c = numbers(LARGE), numbers(LARGE), numbers(LARGE)
    out = torch.empty_like(a)
    yield "addcmul", lambda: torch.addcmul(c, a, b, out=out)
    fused = compiled(lambda a, b, c: a * b + c)
    yield "torch.compile", lambda: fused(a, b, c)


def sums(shape, *axis):
    def ways():
        a = numbers(*shape)
        yield "sum", lambda: a.sum(*axis)
        fused = compiled(lambda a: a.sum(*axis))
        yield "torch.compile", lambda: fused(a)

    return ways


def softmax():
    a = numbers(SIDE, SIDE)
    yield "softmax", lambda: functional.softmax(a, -1)
    fused = compiled(lambda a: functional.softmax(a, -1))
    yield "torch.compile", lambda: fused(a)


def layer_norm():
    a, weight, bias = numbers(SIDE, SIDE), numbers(SIDE), numbers(SIDE)
    yield "layer_norm", lambda: functional.layer_norm(a, (SIDE,), weight, bias)
    fused = compiled(lambda a, weight, bias: functional.layer_norm(a, (SIDE,), weight, bias))
    yield "torch.compile", lambda: fused(a, weight, bias)


def transpose():
    a = numbers(SIDE, SIDE)
    b = torch.empty_like(a)
    yield "copy_", lambda: b.copy_(a.t())
    fused = compiled(lambda a: a.t().contiguous())
    yield "torch.compile", lambda: fused(a)


def product(dtype, size, precision="highest"):
    def ways():
        torch.set_float32_matmul_precision(precision)  # "high": factors rounded to tf32
        a, b = numbers(size, size, dtype=dtype), numbers(size, size, dtype=dtype)
        out = torch.empty_like(a)
        yield "matmul", lambda: torch.matmul(a, b, out=out)

    return ways


def attention():
    q, k, v = (numbers(1, 12, 2048, 64) for _ in range(3))
    yield "scaled_dot_product_attention", lambda: functional.scaled_dot_product_attention(q, k, v)


def resnet():
    import torchvision

    model = torchvision.models.resnet50(weights=None).eval().cuda()
    image = numbers(1, 3, 224, 224)
    yield "torchvision", lambda: model(image)


def gpt2():
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval().cuda()
    tokens = torch.zeros((1, 64), dtype=torch.long, device="cuda")
    yield "transformers", lambda: model(tokens, use_cache=False).logits.max(-1).values


MODELS = {"ResNet-50, forward, batch 1": resnet, "GPT-2 small, forward, 64 tokens": gpt2}
ROWS = {
    "copy, 256M": copy,
    "a*b+c, 256M": multiply_add,
    "sum of all, 256M": sums((LARGE,)),
    "sum of rows, 4096 x 4096": sums((SIDE, SIDE), 1),
    "sum of columns, 4096 x 4096": sums((SIDE, SIDE), 0),
    "softmax, 4096 x 4096": softmax,
    "layer norm, 4096 x 4096": layer_norm,
    "transpose, 4096 x 4096": transpose,
    "float32 product 1024": product(torch.float32, 1024),
    "float32 product 4096": product(torch.float32, 4096),
    "float32 product 8192": product(torch.float32, 8192),
    "tf32 product 4096": product(torch.float32, 4096, "high"),
    "tf32 product 8192": product(torch.float32, 8192, "high"),
    "float16 product 4096": product(torch.float16, 4096),
    "float16 product 8192": product(torch.float16, 8192),
    "bfloat16 product 4096": product(torch.bfloat16, 4096),
    "bfloat16 product 8192": product(torch.bfloat16, 8192),
    "attention, 12 x 2048 x 64": attention,
    **MODELS,
}
# Kernels in a graph, and replays of it that are queued at once.
REPLAYS = {
    "replay of 1 kernel, waited for": (1, 1),
    "replay of 10 kernels, waited for": (10, 1),
    "replay of 1 kernel, one of 100 queued": (1, 100),
    "replay of 10 kernels, one of 100 queued": (10, 100),
}


def captured(work):
    """A CUDA graph of it."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def fastest(work):
    """Seconds by the card's clock, warm."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    marks = []
    for _ in range(TURNS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        marks.append((begin, end))
    torch.cuda.synchronize()
    return min(begin.elapsed_time(end) for begin, end in marks) * 1e-3


def best_way(ways):
    best, problem = None, None
    for name, work in ways():
        for how, made in ((name, lambda: work), (name + ", as a graph", lambda: captured(work).replay)):
            try:
                seconds = fastest(made())
            except Exception as error:  # of whatever kind: the other ways go on
                problem = "%s: %s" % (how, error)
                print(problem, file=sys.stderr, flush=True)
                continue
            if best is None or seconds < best["seconds"]:
                best = {"seconds": seconds, "way": how}
    return best or {"error": problem or "there is no way"}


def replayed(kernels, queued):
    x = numbers(1024)

    def chain():
        y = x
        for _ in range(kernels):
            y = y + 1.0
        return y

    graph = captured(chain)
    best = float("inf")
    for turn in range(20 * TURNS if queued == 1 else TURNS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(queued):
            graph.replay()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return {"seconds": best / queued, "way": "a CUDA graph"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, help="the figures are added to this file, an object a line")
    parser.add_argument("--only", default="", help="only rows whose names contain this")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    common = {
        "device": "HIP:0" if torch.version.hip else "CUDA:0",
        "card": torch.cuda.get_device_name(0),
        "by": "PyTorch %s, %s" % (torch.__version__, torch.version.hip or torch.version.cuda),
    }
    failed = 0
    for name in [*ROWS, *REPLAYS]:
        if options.only not in name:
            continue
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.no_grad():
                outcome = best_way(ROWS[name]) if name in ROWS else replayed(*REPLAYS[name])
        except Exception as error:  # of one row; the others go on
            if name in MODELS and isinstance(error, ImportError):
                print("%s: left out: %s" % (name, error), file=sys.stderr, flush=True)
                continue
            outcome = {"error": "%s: %s" % (type(error).__name__, error)}
        failed += "error" in outcome
        print(name, outcome, flush=True)
        with open(options.json, "a") as out:
            out.write(json.dumps({**common, "row": name, **outcome}) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
