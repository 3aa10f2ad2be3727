# SPDX-License-Identifier: Apache-2.0
"""gqa in Python: ctypes over the C ABI, one file, no build step.

Tensors are taken by pointer and stride, never copied: torch tensors (CPU or CUDA) or numpy arrays.

    import gqa
    o = gqa.decode(q, k, v, kv_lens=lens)                       # device from the tensors
    o, lse = gqa.decode(q, k, v, layout="HND", return_lse=True)

    plan = gqa.Device("cuda:0").plan(problem)                   # or step by step, for CUDA graphs
    plan.decode(tensors, workspace_pointer, workspace_bytes, stream)

Shapes, slowest first:  q  [batch][q_tokens][q_heads][head_dim], or without the q_tokens dimension
                        k, v  layout "NHD": [batch | pages][tokens][kv_heads][head_dim]
                              layout "HND": [batch | pages][kv_heads][tokens][head_dim]
                        o  as q, with V's head_dim;  lse  [batch][(q_tokens)][q_heads] float32
The library is looked for in $GQA_LIBRARY, beside this file, in ../build and by the loader.
"""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_float, c_int, c_int64, c_size_t
from ctypes import c_void_p

F32, BF16, F16, E4M3, E5M2 = range(5)
HND, NHD = range(2)
CONTIGUOUS, PAGED_TABLE, PAGED_CSR = range(3)
SCALE_NONE, SCALE_TENSOR, SCALE_HEAD, SCALE_BATCH_HEAD = range(4)
BASE_E, BASE_2 = range(2)
SPLIT_AUTO, SPLIT_FIXED, SPLIT_INVARIANT = range(3)
REDUCE_AUTO, REDUCE_NONE, REDUCE_KERNEL, REDUCE_ATOMIC, REDUCE_CLUSTER, REDUCE_GRID = range(6)
PDL_AUTO, PDL_OFF, PDL_ON, PDL_EARLY = range(4)
FAST, EXACT = range(2)

_TYPES = {"float32": F32, "bfloat16": BF16, "float16": F16, "float8_e4m3fn": E4M3,
          "float8_e5m2": E5M2}


class Error(RuntimeError):
    """A failing call: .status is the number, .name its identifier, str() the library's sentence."""

    def __init__(self, status, message):
        self.status, self.name = status, _lib.gqa_status_name(status).decode()
        super().__init__(f"{self.name}: {message}")


class _Sized(Structure):
    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class _Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 500)]


class Strides(Structure):
    _fields_ = [("batch", c_int64), ("token", c_int64), ("head", c_int64)]


class Problem(_Sized):
    """struct gqa_problem of gqa.h, field for field; the constructor does gqa_problem_init."""

    _fields_ = [
        ("size", c_size_t), ("batch", c_int64), ("q_heads", c_int), ("kv_heads", c_int),
        ("head_dim", c_int), ("head_dim_v", c_int), ("q_tokens", c_int), ("q_ragged", c_int),
        ("q_total", c_int64), ("kv_len", c_int64), ("kv_len_expected", c_int64),
        ("kv_batch", c_int64), ("q_type", c_int), ("kv_type", c_int), ("o_type", c_int),
        ("k_scales", c_int), ("v_scales", c_int), ("q", Strides), ("k", Strides), ("v", Strides),
        ("o", Strides), ("lse", Strides), ("paging", c_int), ("page_size", c_int),
        ("num_pages", c_int64), ("table_stride", c_int64), ("causal", c_int),
        ("window_left", c_int64), ("scale", c_float), ("softcap", c_float), ("has_sinks", c_int),
        ("has_lse", c_int), ("lse_base", c_int), ("split_mode", c_int), ("splits", c_int),
        ("split_tokens", c_int64), ("reduction", c_int), ("pdl", c_int), ("precision", c_int),
        ("check_tables", c_int), ("kernel", c_char_p)]

    def __init__(self, **fields):
        super().__init__(**{"batch": 1, "q_tokens": 1, "causal": 1, "window_left": -1, **fields})


class DeviceOptions(_Sized):
    _fields_ = [("size", c_size_t), ("threads", c_int), ("spin_us", c_int), ("kernel", c_char_p),
                ("driver", c_char_p)]


class DeviceInfo(_Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 64), ("product", c_char * 128),
                ("features", c_char * 256), ("units", c_int), ("kernels", c_int)]


class PlanInfo(_Sized):
    _fields_ = [("size", c_size_t), ("kernel", c_char * 64), ("reduction", c_int),
                ("splits", c_int), ("split_tokens", c_int64), ("work_items", c_int64),
                ("pdl", c_int), ("workspace_bytes", c_size_t), ("reason", c_char * 256)]


class Tensors(_Sized):
    """struct gqa_tensors: addresses."""

    _fields_ = [("size", c_size_t)] + [(n, c_void_p) for n in (
        "q", "k", "v", "o", "lse", "kv_lens", "cu_seqlens_q", "batch_index", "block_table",
        "page_indptr", "page_indices", "last_page_len", "k_scale", "v_scale", "sinks", "trace")
    ] + [("trace_bytes", c_size_t)]


class Merge(_Sized):
    _fields_ = [("size", c_size_t), ("parts", c_int), ("rows", c_int64), ("q_heads", c_int),
                ("head_dim_v", c_int), ("part_type", c_int), ("o_type", c_int),
                ("part_base", c_int), ("o_base", c_int), ("part_o", c_void_p),
                ("part_lse", c_void_p), ("o", c_void_p), ("lse", c_void_p)]


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    names = [os.environ.get("GQA_LIBRARY"), os.path.join(here, "libgqa.so"),
             os.path.join(here, "..", "build", "libgqa.so"), "libgqa.so.0"]
    for name in filter(None, names):
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError as e:
            reason = e
    else:
        raise ImportError(f"libgqa.so not found ({reason}); build it or set GQA_LIBRARY")
    error = POINTER(_Error)
    for name, result, *arguments in (
            ("status_name", c_char_p, c_int),
            ("reduction_name", c_char_p, c_int),
            ("problem_pack", None, POINTER(Problem), c_int),
            ("device_open", c_int, c_char_p, POINTER(DeviceOptions), POINTER(c_void_p), error),
            ("device_close", None, c_void_p),
            ("device_describe", c_int, c_void_p, POINTER(DeviceInfo), error),
            ("plan_create", c_int, c_void_p, POINTER(Problem), POINTER(c_void_p), error),
            ("plan_destroy", None, c_void_p),
            ("plan_workspace", c_size_t, c_void_p),
            ("plan_describe", c_int, c_void_p, POINTER(PlanInfo), error),
            ("decode", c_int, c_void_p, POINTER(Tensors), c_void_p, c_size_t, c_void_p, error),
            ("merge", c_int, c_void_p, POINTER(Merge), c_void_p, error)):
        function = getattr(lib, "gqa_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


_lib = _load()


def _call(function, *arguments):
    err = _Error()
    status = function(*arguments, byref(err))
    if status:
        raise Error(status, err.message.decode())


def reduction_name(reduction):
    """Of a REDUCE_ constant, as the command line has it."""
    return _lib.gqa_reduction_name(reduction).decode()


class Device:
    """An open device, "cpu", "cuda:0", ...; closed when the last reference is gone."""

    def __init__(self, name="cpu", *, threads=0, spin_us=0, kernel=None, driver=None):
        self._handle = None
        options = DeviceOptions(threads=threads, spin_us=spin_us,
                                kernel=kernel and kernel.encode(),
                                driver=driver and driver.encode())
        handle = c_void_p()
        _call(_lib.gqa_device_open, name.encode(), byref(options), byref(handle))
        self._handle, self.name = handle, name

    def __del__(self):
        if self._handle:
            _lib.gqa_device_close(self._handle)

    def describe(self):
        info = DeviceInfo()
        _call(_lib.gqa_device_describe, self._handle, byref(info))
        return info

    def plan(self, problem):
        return Plan(self, problem)

    def merge(self, merge, stream=None):
        _call(_lib.gqa_merge, self._handle, byref(merge), stream)


class Plan:
    """A plan of one problem on one device; keeps its device alive."""

    def __init__(self, device, problem):
        self._handle, self.device = None, device
        handle = c_void_p()
        _call(_lib.gqa_plan_create, device._handle, byref(problem), byref(handle))
        self._handle = handle
        self.workspace_bytes = _lib.gqa_plan_workspace(handle)

    def __del__(self):
        if self._handle:
            _lib.gqa_plan_destroy(self._handle)

    def describe(self):
        info = PlanInfo()
        _call(_lib.gqa_plan_describe, self._handle, byref(info))
        return info

    def decode(self, tensors, workspace=None, workspace_bytes=0, stream=None):
        """One gqa_decode. workspace: an address of 256-byte aligned memory on the device."""
        _call(_lib.gqa_decode, self._handle, byref(tensors), workspace, workspace_bytes, stream)


# --- Tensors of torch and numpy -------------------------------------------------------------------


def _is_torch(x):
    return hasattr(x, "data_ptr")


def _address(x):
    if x is None:
        return None
    return x.data_ptr() if _is_torch(x) else x.ctypes.data


def _strides(x):
    return x.stride() if _is_torch(x) else tuple(s // x.itemsize for s in x.strides)


def _type(x, what):
    name = str(x.dtype).replace("torch.", "")
    if name not in _TYPES:
        raise TypeError(f"{what} is {name}; expected one of {', '.join(_TYPES)}")
    return _TYPES[name]


def _empty(like, shape, dtype):
    if _is_torch(like):
        import torch
        return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    import numpy
    return numpy.empty(shape, dtype=dtype or like.dtype)


def _float32(like):
    if _is_torch(like):
        import torch
        return torch.float32
    return "float32"


def _check(x, what, like, dtype=None, shape=None):
    """Fail with a sentence unless x lives where `like` lives and has this type and shape."""
    if _is_torch(x) != _is_torch(like) or (_is_torch(x) and x.device != like.device):
        raise ValueError(f"{what} is not on the device of q")
    if dtype and str(x.dtype).replace("torch.", "") != dtype:
        raise TypeError(f"{what} is {x.dtype}; expected {dtype}")
    if shape and tuple(x.shape) != tuple(shape):
        raise ValueError(f"{what} has shape {tuple(x.shape)}; expected {tuple(shape)}")


def _row_strides(x):
    """Strides of [batch][tokens][heads][dim], or of [batch][heads][dim] with one token."""
    s = _strides(x)
    if x.shape[-1] > 1 and s[-1] != 1:
        raise ValueError("the last dimension must be contiguous")
    return Strides(s[0], s[1] if len(s) == 4 else 0, s[-2])


def _cache_strides(x, layout):
    s = _strides(x)
    if x.shape[-1] > 1 and s[-1] != 1:
        raise ValueError("the last dimension of k and v must be contiguous")
    return Strides(s[0], s[1], s[2]) if layout == NHD else Strides(s[0], s[2], s[1])


def _scales(x, batch, kv_heads, what):
    if x is None:
        return SCALE_NONE
    n = 1
    for d in x.shape:
        n *= d
    kind = {0: SCALE_TENSOR, 1: SCALE_TENSOR if n == 1 else SCALE_HEAD, 2: SCALE_BATCH_HEAD}.get(
        len(x.shape))
    if kind is None or (kind == SCALE_HEAD and n != kv_heads) or (
            kind == SCALE_BATCH_HEAD and tuple(x.shape) != (batch, kv_heads)):
        raise ValueError(f"{what} has shape {tuple(x.shape)}; expected one number, [{kv_heads}] or "
                         f"[{batch}][{kv_heads}]")
    return kind


_devices = {}


def device_of(x):
    """The (cached) gqa device that a tensor lives on."""
    name = f"cuda:{x.device.index}" if _is_torch(x) and x.device.type == "cuda" else "cpu"
    if name not in _devices:
        _devices[name] = Device(name)
    return _devices[name]


def problem_of(q, k, v, *, layout="NHD", o=None, o_dtype=None, block_table=None, kv_len=None,
               k_scale=None, v_scale=None, sinks=None, return_lse=False, **fields):
    """A Problem from tensors; `fields` sets any other field of struct gqa_problem."""
    order = {"NHD": NHD, "HND": HND}[layout]
    if len(q.shape) not in (3, 4) or len(k.shape) != 4 or len(v.shape) != 4:
        raise ValueError("expected q with 3 or 4 dimensions, k and v with 4")
    tokens, heads = (k.shape[1], k.shape[2]) if order == NHD else (k.shape[2], k.shape[1])
    batch, q_tokens = q.shape[0], q.shape[1] if len(q.shape) == 4 else 1
    p = Problem(batch=batch, q_heads=q.shape[-2], kv_heads=heads, head_dim=q.shape[-1],
                head_dim_v=v.shape[-1], q_tokens=q_tokens, q_type=_type(q, "q"),
                kv_type=_type(k, "k"))
    p.o_type = _type(o, "o") if o is not None else p.q_type
    if block_table is not None:
        p.paging, p.page_size, p.num_pages = PAGED_TABLE, tokens, k.shape[0]
        p.kv_batch, p.table_stride = block_table.shape[0], _strides(block_table)[0]
        p.kv_len = kv_len if kv_len is not None else block_table.shape[1] * tokens
    else:
        p.kv_batch, p.kv_len = k.shape[0], tokens
    _lib.gqa_problem_pack(byref(p), order)
    p.q, p.k, p.v = _row_strides(q), _cache_strides(k, order), _cache_strides(v, order)
    if o is not None:
        p.o = _row_strides(o)
    p.k_scales = _scales(k_scale, batch, heads, "k_scale")
    p.v_scales = _scales(v_scale, batch, heads, "v_scale")
    p.has_sinks, p.has_lse = sinks is not None, return_lse
    for name, value in fields.items():
        if name not in dict(Problem._fields_):
            raise TypeError(f"gqa_problem has no field {name}")
        setattr(p, name, value.encode() if isinstance(value, str) else value)
    return p


def decode(q, k, v, *, kv_lens=None, block_table=None, batch_index=None, k_scale=None,
           v_scale=None, sinks=None, out=None, lse=None, return_lse=False, layout="NHD",
           device=None, workspace=None, **fields):
    """Decode attention over tensors; returns out, or (out, lse) if return_lse.

    On CUDA the work is enqueued on torch's current stream. For CUDA graphs pass `out`, `lse` and a
    uint8 `workspace` of plan.workspace_bytes + 255. `fields` sets fields of struct gqa_problem, such as
    scale=, softcap=, window_left=, split_mode=, precision=, lse_base=.
    """
    for x, what in ((k, "k"), (v, "v")):
        _check(x, what, q, str(k.dtype).replace("torch.", ""))
    for x, what in ((kv_lens, "kv_lens"), (block_table, "block_table"),
                    (batch_index, "batch_index")):
        if x is not None:
            _check(x, what, q, "int32")
    for x, what in ((k_scale, "k_scale"), (v_scale, "v_scale"), (sinks, "sinks")):
        if x is not None:
            _check(x, what, q, "float32")
    shape = tuple(q.shape[:-1]) + (v.shape[-1],)
    out = _empty(q, shape, None) if out is None else out
    _check(out, "out", q, shape=shape)
    if return_lse and lse is None:
        lse = _empty(q, tuple(q.shape[:-1]), _float32(q))
    if lse is not None:
        _check(lse, "lse", q, "float32", q.shape[:-1])
    p = problem_of(q, k, v, layout=layout, o=out, block_table=block_table, k_scale=k_scale,
                   v_scale=v_scale, sinks=sinks, return_lse=lse is not None, **fields)
    if lse is not None:
        s = _strides(lse)
        p.lse = Strides(s[0], s[1] if len(s) == 3 else 0, s[-1])
    plan = (device or device_of(q)).plan(p)
    if plan.workspace_bytes and workspace is None:
        workspace = _workspace(q, plan.workspace_bytes)
    t = Tensors(q=_address(q), k=_address(k), v=_address(v), o=_address(out), lse=_address(lse),
                kv_lens=_address(kv_lens), batch_index=_address(batch_index),
                block_table=_address(block_table), k_scale=_address(k_scale),
                v_scale=_address(v_scale), sinks=_address(sinks))
    plan.decode(t, *_aligned(workspace), _stream(q))
    return (out, lse) if return_lse else out


def _workspace(like, size):
    """Memory for one decode. torch's allocator keeps it from being reused before the stream did."""
    if _is_torch(like):
        import torch
        return torch.empty(size + 256, dtype=torch.uint8, device=like.device)
    import numpy
    return numpy.empty(size + 256, dtype="uint8")


def _aligned(workspace):
    """(address, bytes) of the part of a uint8 tensor that starts on a multiple of 256."""
    if workspace is None:
        return None, 0
    start = (_address(workspace) + 255) // 256 * 256
    return start, max(0, _address(workspace) + workspace.shape[0] - start)


def _stream(x):
    if _is_torch(x) and x.device.type == "cuda":
        import torch
        return torch.cuda.current_stream(x.device).cuda_stream
    return None
