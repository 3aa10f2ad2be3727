# SPDX-License-Identifier: Apache-2.0
"""The same bits every time: many graph replays, and two threads on two streams sharing a plan.

    python3 bench/soak.py [--replays 10000]
"""
import argparse
import os
import sys
import threading

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers

SHAPES = [(1, 16, 2, 128, 1024), (1, 16, 1, 128, 65536), (3, 64, 8, 128, 3000), (40, 32, 8, 64, 777)]


def replays(shape, count):
    x = peers.Inputs(shape, 0)
    call = peers.PEERS["gqa"](x)
    first = call(0).clone()
    graph = peers.capture(call, 1)
    bad = 0
    for _ in range(count):
        graph.replay()
        bad += not torch.equal(call.out, first)
    return bad


def threads(shape, rounds):
    x = peers.Inputs(shape, 0)
    calls = [peers.PEERS["gqa"](x) for _ in range(2)]
    expected = [calls[0](i).clone() for i in range(2)]
    torch.cuda.synchronize()
    bad = [0, 0]

    def work(n):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(rounds):
                out = calls[n](n)
                stream.synchronize()
                bad[n] += not torch.equal(out, expected[n])

    both = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for t in both:
        t.start()
    for t in both:
        t.join()
    return sum(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replays", type=int, default=10000)
    options = parser.parse_args()
    failed = 0
    for shape in SHAPES:
        count = options.replays if shape == SHAPES[0] else options.replays // 10
        a, b = replays(shape, count), threads(shape, 300)
        failed += a + b
        print(f"{peers.shape_name(shape)}: {a} of {count} replays, {b} of 600 calls from two "
              f"threads differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
