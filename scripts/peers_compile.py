# SPDX-License-Identifier: Apache-2.0
"""peers_compile.py NAME: ask an installed package to compile one of its SM100 decode kernels.

Names as scripts/peers-ptx has them: fa4-dD-splitS, fa4-dD-nosplit, fa4-dD-pageP, fa4-d256-pair (two
CTAs together), fi-dD-REDUCTION, fi-dD-REDUCTION-pageP, fi-dD-REDUCTION-gG: G query heads of a KV head, else 8;
fi-TYPE-..., f16 or e4m3 instead of bf16 (to read only: tests/emu/peers runs bf16). 64 query heads. Nothing is launched; no GPU
is needed.
"""
import importlib.util
import pathlib
import re
import sys
import types

Q_HEADS, KV_HEADS = 64, 8


def flash_attention(head_dim, splits, page, q_tokens):
    import cutlass.utils
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Hardware:  # there is no driver to ask; a B200 has 148 SMs
        def __init__(self, device_id=0):
            pass

        def get_device_multiprocessor_count(self):
            return 148

        def get_max_active_clusters(self, cluster_size):
            return 148 // cluster_size

    cutlass.utils.HardwareInfo = Hardware
    from flash_attn.cute.interface import _flash_attn_fwd

    def bf16(*shape):
        return torch.empty(*shape, dtype=torch.bfloat16, device="cuda")

    def i32(*shape):
        return torch.empty(*shape, dtype=torch.int32, device="cuda")

    batch, tokens = 2, 4096
    with FakeTensorMode():
        kv = (batch * tokens // page, page) if page else (batch, tokens)
        k, v = bf16(*kv, KV_HEADS, head_dim), bf16(*kv, KV_HEADS, head_dim)
        _flash_attn_fwd(
            bf16(batch, q_tokens, Q_HEADS, head_dim), k, v, num_splits=splits, pack_gqa=True, causal=False, return_lse=True,
            page_table=i32(batch, tokens // page) if page else None, seqused_k=i32(batch) if page else None)


def flash_infer(kind, head_dim, reduction, page, group):
    # The package's __init__ wants a driver; empty packages stand in for the ones above the kernels.
    root = pathlib.Path(importlib.util.find_spec("flashinfer").submodule_search_locations[0]).parent
    attention = "flashinfer.cute_dsl.attention"
    for name in ("flashinfer", "flashinfer.cute_dsl", attention, attention + ".fusion", attention + ".wrappers"):
        stub = types.ModuleType(name)
        stub.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = stub

    import cutlass
    from flashinfer.cute_dsl.attention.wrappers import batch_decode

    kinds = {"f16": cutlass.Float16, "e4m3": cutlass.Float8E4M3FN}
    kv = kinds.get(kind, cutlass.BFloat16)
    out = cutlass.BFloat16 if kind == "e4m3" else kv
    if page:
        batch_decode._get_compiled_paged_decode_kernel(
            kv, out, page, Q_HEADS, Q_HEADS // group, head_dim, 1, reduction, None, None, False, True, False)
    else:
        batch_decode._get_compiled_decode_kernel(
            kv, out, Q_HEADS, Q_HEADS // group, head_dim, 1, reduction, None, None, True, False)


def main(name):
    m = re.fullmatch(r"(fa4|fi)(?:-(f16|e4m3))?-d(\d+)-(split\d+|nosplit|pair|none|kernel|atomic|page\d+)"
                     r"(?:-page(\d+))?(?:-g(\d+))?", name)
    if not m:
        sys.exit(__doc__)
    package, head_dim, how, page = m[1], int(m[3]), m[4], int(m[5] or 0)
    if package == "fi":
        flash_infer(m[2], head_dim, how, page, int(m[6] or Q_HEADS // KV_HEADS))
    else:
        digits = int(re.sub(r"\D", "", how) or 1)
        flash_attention(head_dim, 8 if how.startswith("page") else digits, digits if how.startswith("page") else 0,
                        4096 if how == "pair" else 1)


main(sys.argv[1] if len(sys.argv) > 1 else "")
