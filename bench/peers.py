# SPDX-License-Identifier: Apache-2.0
"""Time gqa beside the decode attention that people use today: one GPU, one process, in turns.

    python3 bench/peers.py                          the whole matrix, a table and peers.csv
    python3 bench/peers.py --only "1 16/2 128"      shapes whose name starts so
    python3 bench/peers.py --peers cudnn,flash --rounds 3 --replays 7 --pool-mib 512

Method. Every contender gets the same bf16 inputs: as many K/V sets as fill the pool (512 MiB, so
that nothing is served from the 60 MB L2), one CUDA graph of at least 16 calls that decodes every set
equally often. A round
replays each contender's graph 7 times and takes the median; rounds interleave the contenders and
reverse their order every time; the best round median counts. Times are us per call, K and V read
once are the bytes. Each output is compared with float32 attention before anything is timed.
"""
import argparse
import csv
import os
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import gqa

MATRIX = [(1, hq, hkv, d, n) for hq, hkv in ((16, 2), (16, 1), (16, 16)) for d in (128, 64)
          for n in (1024, 2048, 4096, 8192, 16384, 32768, 65536)]
MATRIX += [(b, hq, 8, 128, n) for hq in (64, 32) for b in (1, 4, 8, 16, 32, 64)
           for n in (1024, 8192)]
MATRIX += [(1, hq, 1, 256, n) for hq in (16, 32) for n in (4096, 32768)]


def shape_name(shape):
    b, hq, hkv, d, n = shape
    return f"{b} {hq}/{hkv} {d} {n}"


class Inputs:
    """K/V sets of one shape, head-major [batch][kv_heads][kv_len][head_dim]."""

    def __init__(self, shape, pool_bytes):
        b, hq, hkv, d, n = shape
        self.kv_bytes = 2 * b * hkv * n * d * 2
        self.sets = max(2, -(-pool_bytes // self.kv_bytes))
        make = lambda *size: torch.randn(size, device="cuda", dtype=torch.bfloat16)
        self.q = make(b, hq, 1, d)
        self.k, self.v = make(self.sets, b, hkv, n, d), make(self.sets, b, hkv, n, d)

    def expected(self):
        """Set 0 in float32, one sequence at a time."""
        k, v = self.k[0].float(), self.v[0].float()
        group = self.q.shape[1] // k.shape[1]
        rows = []
        for b in range(self.q.shape[0]):
            q = self.q[b].float().view(k.shape[1], group, -1)
            s = q @ k[b].transpose(1, 2) * q.shape[-1] ** -0.5
            rows.append((s.softmax(-1) @ v[b]).reshape(self.q.shape[1], -1))
        return torch.stack(rows)


# --- Contenders: functions from Inputs to a function of the set number ----------------------------


def sdpa(backend):
    def contender(x):
        def call(i):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(x.q, x.k[i], x.v[i], enable_gqa=True)
        return call
    return contender


def ours(**fields):
    def contender(x):
        q = x.q.squeeze(2)
        out = torch.empty_like(q)
        device = gqa.device_of(q)
        plan = device.plan(gqa.problem_of(q, x.k[0], x.v[0], layout="HND", o=out, **fields))
        workspace = torch.full((plan.workspace_bytes + 256,), 255, dtype=torch.uint8, device="cuda")
        start = (workspace.data_ptr() + 255) // 256 * 256

        def call(i):
            t = gqa.Tensors(q=q.data_ptr(), k=x.k[i].data_ptr(), v=x.v[i].data_ptr(),
                            o=out.data_ptr())
            plan.decode(t, start, plan.workspace_bytes, torch.cuda.current_stream().cuda_stream)
            return out
        call.out, call.keep = out, workspace
        call.plan = plan.describe()
        return call
    return contender


def fa4(x):
    """FlashAttention-4, for Blackwell; its own choice of splits. K and V as views [b][n][heads][d]."""
    from flash_attn.cute import flash_attn_func
    q = x.q.transpose(1, 2)

    def call(i):
        out = flash_attn_func(q, x.k[i].transpose(1, 2), x.v[i].transpose(1, 2), causal=False)
        return out[0] if isinstance(out, tuple) else out
    return call


def flashinfer(x):
    """FlashInfer's decode over pages of 64 tokens, planned once, kernels of its own choice."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper
    batch, heads, tokens, d = x.k.shape[1:]
    pages = tokens // 64
    wrapper = BatchDecodeWithPagedKVCacheWrapper(
        torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "HND")
    numbers = dict(dtype=torch.int32, device="cuda")
    wrapper.plan(torch.arange(batch + 1, **numbers) * pages,
                 torch.arange(batch * pages, **numbers), torch.full((batch,), 64, **numbers),
                 x.q.shape[1], heads, d, 64, q_data_type=torch.bfloat16,
                 kv_data_type=torch.bfloat16)

    def paged(x):  # [b][heads][n][d] as [b * pages][heads][64][d]: a copy, once
        return x.view(batch, heads, pages, 64, d).transpose(1, 2).reshape(-1, heads, 64, d)
    caches = [(paged(k), paged(v)) for k, v in zip(x.k, x.v)]
    q = x.q.squeeze(2)
    return lambda i: wrapper.run(q, caches[i])


PEERS = {"gqa": ours(), "gqa-pdl": ours(pdl=gqa.PDL_ON), "gqa-nopdl": ours(pdl=gqa.PDL_OFF),
         "gqa-early": ours(pdl=gqa.PDL_EARLY),
         "fa4": fa4, "flashinfer": flashinfer,  # where they can be imported
         "cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "flash": sdpa(SDPBackend.FLASH_ATTENTION)}


def check(call, x):
    got = call(0).float().reshape(x.q.shape[0], x.q.shape[1], -1)
    expected = x.expected()
    error = ((got - expected).norm() / expected.norm()).item()
    if not error < 6e-3:  # bf16 weights and bf16 output: 2e-3 to 3e-3 is what all of them give
        raise ValueError(f"relative error {error:.2e}")


def calls_of(sets):
    """Calls per graph: every set equally often, and at least 16, since starting a graph takes as long
    as a short call."""
    return -(-16 // sets) * sets


def capture(call, sets):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(0)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(calls_of(sets)):
            call(i % sets)
    graph.replay()
    torch.cuda.synchronize()
    return graph


def replay_us(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000


def measure(shape, names, options):
    x = Inputs(shape, options.pool_mib << 20)
    graphs, why = {}, {}
    for name in names:
        try:
            call = PEERS[name](x)
            check(call, x)
            graphs[name] = (capture(call, x.sets), call)
        except Exception as e:  # whatever a peer raises, the others go on
            why[name] = f"{type(e).__name__}: {str(e).splitlines()[0][:120] if str(e) else ''}"
            torch.cuda.synchronize()
    best = {}
    for r in range(options.rounds):
        for name in list(graphs)[::1 if r % 2 == 0 else -1]:
            us = statistics.median(replay_us(graphs[name][0]) for _ in range(options.replays))
            best[name] = min(best.get(name, float("inf")), us / calls_of(x.sets))
    plan = {n: c.plan for n, (_, c) in graphs.items() if hasattr(c, "plan")}
    return x, best, why, plan


def report(shape, names, x, best, why, plan, writer):
    """Prints a line; returns cudnn / each of ours."""
    base = best.get("cudnn")
    cells = [f"{best[n]:9.2f}" if n in best else f"{'-':>9}" for n in names]
    ratios = {n: base / best[n] for n in names if base and n in best and n.startswith("gqa")}
    p = next(iter(plan.values()), None)
    note = f"{p.kernel.decode()} x{p.splits} {gqa.reduction_name(p.reduction)}" if p else ""
    print(f"{shape_name(shape):20}{' '.join(cells)}  "
          f"{' '.join(f'{r:6.2f}' for r in ratios.values())}  {note}")
    for name, reason in why.items():
        print(f"    {name}: {reason}")
    writer.writerow([shape_name(shape), x.kv_bytes, x.sets] + [best.get(n, "") for n in names] +
                    list(ratios.values()) + [note])
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default="gqa,gqa-early,cudnn,flash", help=", ".join(PEERS))
    parser.add_argument("--only", default="", help="shapes whose name starts with this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replays", type=int, default=7)
    parser.add_argument("--pool-mib", type=int, default=512)
    parser.add_argument("--csv", default="peers.csv")
    options = parser.parse_args()
    names = options.peers.split(",")
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        parser.error(f"unknown peers {unknown}; there are {', '.join(PEERS)}")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN "
          f"{torch.backends.cudnn.version()}; us per call; ratios = cudnn / ours")
    print(f"{'B Hq/Hkv D n':20}{' '.join(f'{n:>9}' for n in names)}   ratios")
    ours_names = [n for n in names if n.startswith("gqa")]
    ratios = {n: [] for n in ours_names}
    with open(options.csv, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["shape", "kv_bytes", "sets"] + names +
                        [f"ratio {n}" for n in ours_names] + ["kernel"])
        for shape in MATRIX:
            if shape_name(shape).startswith(options.only):
                with torch.no_grad():
                    found = report(shape, names, *measure(shape, names, options), writer)
                for name, ratio in found.items():
                    ratios[name].append(ratio)
                f.flush()
                torch.cuda.empty_cache()
    for name, all_of in ratios.items():
        if all_of:
            print(f"{name}: geometric mean of {len(all_of)}: "
                  f"{statistics.geometric_mean(all_of):.3f}, lowest {min(all_of):.3f}")


if __name__ == "__main__":
    main()
