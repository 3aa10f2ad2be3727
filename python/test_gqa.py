# SPDX-License-Identifier: Apache-2.0
"""Tests of gqa.py on the CPU, with numpy as the oracle. Last line: N passed, N failed, N skipped."""
import sys
import traceback

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import gqa


def reference(q, k, v, lens, scale, window=-1):
    """[batch][tokens][heads][dim] in float64, causal bottom-right, written for obviousness."""
    batch, tokens, heads, _ = q.shape
    group = heads // k.shape[2]
    o = np.zeros(q.shape[:-1] + (v.shape[-1],))
    lse = np.full(q.shape[:-1], -np.inf)
    for b in range(batch):
        for i in range(tokens):
            position = lens[b] - tokens + i
            first = max(0, position - window) if window >= 0 else 0
            for h in range(heads):
                if position < first:
                    continue
                keys = k[b, first:position + 1, h // group].astype(np.float64)
                s = keys @ q[b, i, h].astype(np.float64) * scale
                w = np.exp(s - s.max())
                o[b, i, h] = w @ v[b, first:position + 1, h // group].astype(np.float64) / w.sum()
                lse[b, i, h] = s.max() + np.log(w.sum())
    return o, lse


def case(batch=3, tokens=1, heads=8, kv_heads=2, dim=64, dim_v=64, length=77, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((batch, tokens, heads, dim), dtype=np.float32)
    k = rng.standard_normal((batch, length, kv_heads, dim), dtype=np.float32)
    v = rng.standard_normal((batch, length, kv_heads, dim_v), dtype=np.float32)
    lens = rng.integers(0, length + 1, batch).astype(np.int32)
    for b in range(batch):
        k[b, lens[b]:] = np.nan
        v[b, lens[b]:] = np.inf
    return q, k, v, lens


def close(a, b):
    assert a.shape == b.shape, (a.shape, b.shape)
    assert (np.isinf(a) == np.isinf(b)).all() and not np.isnan(a).any()
    finite = np.isfinite(b)
    assert np.abs(a - b)[finite].max(initial=0) < 2e-5, np.abs(a - b)[finite].max()


def test_nhd_and_hnd_agree_with_numpy():
    q, k, v, lens = case(dim_v=40)
    expected, expected_lse = reference(q, k, v, lens, 64 ** -0.5)
    for layout, axes in (("NHD", (0, 1, 2, 3)), ("HND", (0, 2, 1, 3))):
        o, lse = gqa.decode(q, np.ascontiguousarray(k.transpose(axes)),
                            np.ascontiguousarray(v.transpose(axes)), kv_lens=lens, layout=layout,
                            return_lse=True)
        close(o, expected)
        close(lse, expected_lse)


def test_several_query_tokens_and_window():
    q, k, v, lens = case(tokens=4)
    expected, _ = reference(q, k, v, lens, 0.3, window=5)
    close(gqa.decode(q, k, v, kv_lens=lens, scale=0.3, window_left=5), expected)


def test_sliced_caches_by_stride():
    q, k, v, lens = case()
    both = np.full((3, 77, 2, 2, 64), np.nan, np.float32)
    both[:, :, 0], both[:, :, 1] = k, v
    expected, _ = reference(q, k, v, lens, 64 ** -0.5)
    close(gqa.decode(q, both[:, :, 0], both[:, :, 1], kv_lens=lens), expected)


def test_pages():
    q, k, v, lens = case(length=64)
    order = np.random.default_rng(1).permutation(12).astype(np.int32).reshape(3, 4)
    pages_k = np.empty((12, 16, 2, 64), np.float32)
    pages_v = np.empty((12, 16, 2, 64), np.float32)
    for b in range(3):
        for j in range(4):
            pages_k[order[b, j]] = k[b, 16 * j:16 * j + 16]
            pages_v[order[b, j]] = v[b, 16 * j:16 * j + 16]
    expected, _ = reference(q, k, v, lens, 64 ** -0.5)
    close(gqa.decode(q, pages_k, pages_v, kv_lens=lens, block_table=order), expected)


def test_errors_are_sentences():
    q, k, v, lens = case()
    for wrong, kind in ((dict(kv_lens=lens.astype(np.int64)), TypeError),
                        (dict(kv_lens=lens, nonsense=1), TypeError),
                        (dict(kv_lens=lens, k_scale=np.ones(5, np.float32)), ValueError),
                        (dict(kv_lens=lens, softcap=-1.0), gqa.Error)):
        try:
            gqa.decode(q, k, v, **wrong)
        except kind as e:
            assert len(str(e)) > 10
        else:
            raise AssertionError(f"{wrong} was accepted")


def test_plan_and_device_describe_themselves():
    info = gqa.Device("cpu", threads=1).describe()
    assert info.units == 1 and info.kernels > 0 and info.name == b"cpu"
    q, k, v, _ = case()
    plan = gqa.Device("cpu").plan(gqa.problem_of(q, k, v))
    assert plan.describe().kernel and plan.describe().reason


def test_merge():
    rng = np.random.default_rng(2)
    o = rng.standard_normal((3, 5, 4, 8), dtype=np.float32)
    lse = rng.standard_normal((3, 5, 4), dtype=np.float32)
    lse[1], o[1] = -np.inf, np.nan
    out, out_lse = np.empty((5, 4, 8), np.float32), np.empty((5, 4), np.float32)
    gqa.Device("cpu").merge(gqa.Merge(
        parts=3, rows=5, q_heads=4, head_dim_v=8, part_o=o.ctypes.data, part_lse=lse.ctypes.data,
        o=out.ctypes.data, lse=out_lse.ctypes.data))
    w = np.exp(lse.astype(np.float64))
    expected = (w[[0, 2], ..., None] * o[[0, 2]]).sum(0) / w[[0, 2]].sum(0)[..., None]
    close(out, expected)
    close(out_lse, np.log(w.sum(0)))


def main():
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
