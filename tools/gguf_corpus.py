#!/usr/bin/env python3
"""Make the seed corpus of the GGUF fuzz target: python3 tools/gguf_corpus.py tests/fuzz/corpus/gguf

Good and bad files under 2 KB, the same bytes every time. Written from the public GGUF
specification, independent of src/gguf, so the good ones also check the reader.
"""
import struct
import sys
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FMT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
       U64: "Q", I64: "q", F64: "d"}
BLOCK = {0: (1, 4), 1: (1, 2), 8: (32, 34), 12: (256, 144), 30: (1, 2)}  # F32 F16 Q8_0 Q4_K BF16


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, v):
    if kind == STR:
        return text(v)
    if kind == ARR:
        elem, items = v
        body = b"".join(value(elem, x) for x in items)
        return struct.pack("<IQ", elem, len(items)) + body
    return struct.pack("<" + FMT[kind], v)


def gguf(kv=(), tensors=(), version=3, align=32, n_kv=None, n_tensor=None, offsets=None):
    """kv: (key, kind, value); tensors: (name, type number, dims fastest first)."""
    out = b"GGUF" + struct.pack("<IQQ", version,
                                len(tensors) if n_tensor is None else n_tensor,
                                len(kv) if n_kv is None else n_kv)
    for key, kind, v in kv:
        out += text(key) + struct.pack("<I", kind) + value(kind, v)
    data = b""
    for i, (name, kind, dims) in enumerate(tensors):
        per, size = BLOCK[kind]
        n = size
        for d in dims:
            n *= d
        data += b"\0" * (-len(data) % align)
        offset = len(data) if offsets is None else offsets[i]
        out += text(name) + struct.pack("<I", len(dims))
        out += b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset)
        data += bytes((i * 31 + k) & 255 for k in range(n // per))
    return out + b"\0" * (-len(out) % align) + data


SCALARS = [
    ("general.architecture", STR, "qwen35"), ("a.u8", U8, 255), ("a.i8", I8, -128),
    ("a.u16", U16, 65535), ("a.i16", I16, -32768), ("a.u32", U32, 4294967295),
    ("a.i32", I32, -2147483648), ("a.f32", F32, 0.5), ("a.bool", BOOL, 1),
    ("a.u64", U64, 2**64 - 1), ("a.i64", I64, -2**63), ("a.f64", F64, -0.25),
]
ARRAYS = [
    ("tokenizer.ggml.tokens", ARR, (STR, ["a", "", "\u00e9\u4e2d"])),
    ("b.i32", ARR, (I32, [1, -2, 3])), ("b.f32", ARR, (F32, [1.0, -1.0])),
    ("b.bool", ARR, (BOOL, [0, 1, 2, 255])), ("b.none", ARR, (U64, [])),
    ("b.nested", ARR, (ARR, [(STR, ["x", "y"]), (U8, [7])])),
]
TENSORS = [("output_norm.weight", 0, [8]), ("blk.0.ffn_up.weight", 8, [32, 3]),
           ("blk.0.exps.weight", 1, [4, 3, 2]), ("blk.0.four.weight", 30, [2, 1, 2, 2])]


def deep(n):
    v = (U8, [1])
    for _ in range(n - 1):
        v = (ARR, [v])
    return v


FILES = {
    "good_v3": gguf(SCALARS + ARRAYS, TENSORS),
    "good_v2": gguf(SCALARS[:2], TENSORS[:2], version=2),
    "good_align_1": gguf([("general.alignment", U32, 1)], TENSORS[:2] + [("q", 12, [256])], align=1),
    "good_align_256": gguf([("general.alignment", U32, 256)], TENSORS[:2], align=256),
    "good_no_tensors": gguf(ARRAYS),
    "good_empty": gguf(),
    "good_depth_8": gguf([("k", ARR, deep(8))]),
    "bad_depth_9": gguf([("k", ARR, deep(9))]),
    "bad_version_1": gguf(SCALARS[:1], version=1),
    "bad_big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "bad_align_0": gguf([("general.alignment", U32, 0)], TENSORS[:1]),
    "bad_align_48": gguf([("general.alignment", U32, 48)], TENSORS[:1], align=48),
    "bad_many_tensors": gguf(SCALARS[:1], n_tensor=2**60),
    "bad_many_kv": gguf(SCALARS[:1], n_kv=2**31),
    "bad_key_twice": gguf([SCALARS[1], SCALARS[2], SCALARS[1]]),
    "bad_name_twice": gguf([], [TENSORS[0], TENSORS[0]]),
    "bad_overlap": gguf([], TENSORS[:2], offsets=[0, 0]),
    "bad_offset_wraps": gguf([], TENSORS[:1], offsets=[2**64 - 32]),
    "bad_key_nul": gguf([(b"a\0b", U8, 1)]),
    "bad_array_long": gguf(n_kv=1)[:24] + text("k") + struct.pack("<IIQ", ARR, U8, 2**63),
    "bad_cut": gguf(SCALARS, TENSORS)[:-1],
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (folder / (name + ".gguf")).write_bytes(data)
