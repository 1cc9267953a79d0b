"""The part of staxc_test.sh that makes and reads .npy files and JSON. Works in the current folder.

    python3 staxc_npy_test.py STAXC
"""
import io
import json
import math
import random
import struct
import subprocess
import sys

import numpy as np

STAXC = sys.argv[1]
FAILED = []
COUNT = 0


def staxc(*words, text=None):
    done = subprocess.run([STAXC, *words], input=None if text is None else text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check(good, what):
    global COUNT
    COUNT += 1
    if not good:
        FAILED.append(what)
        print("FAIL:", what)


def file(name, text):
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)
    return name


def copy_graph(dtype, dims, layout=""):
    return file("copy.stax", f"graph copy(x: {dtype}[{dims}]{layout}) {{ y = cast x {{dtype={dtype}}}; return y }}\n")


def passes(name, array, dtype, option="x", layout="", backend="interpret"):
    """array saved as x.npy goes through `y = x` and comes back with the same bits."""
    np.save("x.npy", array)
    code, _, err = staxc("run", copy_graph(dtype, ",".join(map(str, array.shape)), layout), f"--in={option}=x.npy",
                         "--out", "y=y.npy", f"--backend={backend}")
    if code != 0:
        check(False, f"{name}: exit {code}: {err}")
        return None
    got = np.load("y.npy")
    want = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="))
    check(got.shape == array.shape and got.tobytes() == want.tobytes(), f"{name}: {got!r}, expected {want!r}")
    return got


def dtypes_and_layouts():
    rng = np.random.default_rng(1)
    for dtype, kind in [("f64", "f8"), ("f32", "f4"), ("f16", "f2"), ("i64", "i8"), ("i32", "i4"), ("i16", "i2"),
                        ("i8", "i1"), ("u64", "u8"), ("u32", "u4"), ("u16", "u2"), ("u8", "u1"), ("bool", "b1")]:
        a = np.frombuffer(rng.bytes(3 * 4 * 8), "u8").reshape(3, 4)
        a = (a % 2 if dtype == "bool" else a).astype(kind) if kind[0] != "f" else rng.standard_normal((3, 4)).astype(kind)
        got = passes(dtype, a, dtype)
        if got is not None:
            check(got.dtype == a.dtype, f"{dtype}: written as {got.dtype}")
        passes(dtype + " Fortran", np.asfortranarray(a), dtype)
        passes(dtype + " big endian", a.astype(">" + kind), dtype)
        passes(dtype + " big endian Fortran", np.asfortranarray(a.astype(">" + kind)), dtype)
        passes(dtype + " scalar", a[1, 1].reshape(()), dtype)
        passes(dtype + " empty", a[:0], dtype)
    a = rng.standard_normal((2, 3, 4)).astype("f4")
    for backend in "interpret", "compile":
        passes("rank 3 Fortran", np.asfortranarray(a), "f32", backend=backend)
        passes("strided", np.asfortranarray(a), "f32", layout=" strided", backend=backend)
        passes("exact strides", a, "f32", layout=" strides [1,2,6]", backend=backend)
        passes("negative strides", a, "f32", layout=" strides [-12,4,1]", backend=backend)
        passes("exact strides, Fortran", np.asfortranarray(a), "f32", layout=" strides [1,8,32]", backend=backend)
    passes("rank 8", a.reshape(1, 2, 1, 3, 1, 4, 1, 1), "f32")
    raw = np.frombuffer(rng.bytes(24), "u2").reshape(3, 4)
    for option, array in [("x", raw.view("V2")), ("x:bf16", raw.view("V2")), ("x:bf16", raw)]:
        got = passes("bf16 " + option, array, "bf16", option)
        check(got is not None and got.dtype == np.dtype("V2"), f"bf16 is written as {None if got is None else got.dtype}")
    raw = np.frombuffer(rng.bytes(12), "u1").reshape(3, 4)
    for option, array in [("x", raw.view("V1")), ("x:f8e4m3", raw), ("x:f8e4m3", raw.view("V1"))]:
        passes("f8 " + option, array, "f8e4m3", option)
    code, _, err = staxc("run", copy_graph("f32", "2", " strides [4000000000000000000]"), "--backend=interpret")
    check(code == 1 and "too far" in err, f"a stride of 4e18: exit {code}: {err}")
    # the names of dtypes that do not fit
    for option, array, dtype, said in [("x", raw, "f8e4m3", "x:f8e4m3"), ("x:bf16", raw, "bf16", "2 bytes"), ("x:frob", raw, "u8", "frob is no dtype"),
                                       ("x", raw.astype("c8"), "f32", "found '<c8'"), ("x", raw.astype("U3"), "f32", "found"),
                                       ("x", raw.astype("f8"), "f32", r"expected f32[3,4], found f64[3,4]")]:
        np.save("x.npy", array)
        code, _, err = staxc("run", copy_graph(dtype, "3,4"), f"--in={option}=x.npy", "--backend=interpret")
        check(code == 1 and said in err and "x.npy" in err, f"{option} of {array.dtype}: exit {code}: {err}")


def headers():
    data = struct.pack("<3f", 1, 2, 3)

    def npy(header, version=(1, 0), body=data, magic=b"\x93NUMPY"):
        text = header.encode() if isinstance(header, str) else header
        length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
        return magic + bytes(version) + length + text + body

    usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n"
    right = [npy(usual), npy(usual, (2, 0)), npy(usual, (3, 0)), npy('{"shape":(3,),"descr":"<f4","fortran_order":False}'),
             npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3L,)}   \n"), npy("  { 'descr' : 'f4' ,'fortran_order':False,'shape':( 3 , ) , } ")]
    wrong = [b"", b"\x93NUMPY", npy(usual, magic=b"\x93NUMPX"), npy(usual, (4, 0)), npy(usual, (0, 0)), npy(usual, body=data[:-1]), npy(usual, body=data + b"1"),
             npy("{}"), npy(""), npy("{'descr': '<f4', 'fortran_order': False}"), npy(usual.replace("False", "Maybe")), npy(usual.replace("(3,)", "3")),
             npy(usual.replace("(3,)", "(-3,)")), npy(usual.replace("(3,)", "(3,,)")), npy(usual.replace("(3,)", "(3")), npy(usual.replace("'<f4'", "'<f4")),
             npy(usual.replace("'<f4'", "[('a', '<f4')]")), npy(usual.replace("'<f4'", "'<f0'")), npy(usual.replace("'<f4'", "'|O'")),
             npy(usual.replace("'<f4'", "''")), npy(usual.replace("(3,)", "(99999999999999999999,)")), npy(usual.replace("(3,)", "(4000000000,4000000000,4000000000)")),
             npy(usual.replace("(3,)", "(4000000000,)")), npy(usual.replace("(3,)", "(1,1,1,1,1,1,1,1,3)")), npy(usual.replace("shape", "size")),
             npy(usual + "{}"), npy(usual[:-1] + "\0\n"), npy(usual.replace("(3,)", "(3,4000000000,0)"), body=b""),
             npy(usual.replace("(3,)", "(0,4000000000,4000000000,4000000000)"), body=b"")]
    graph = copy_graph("f32", "3")
    for k, content in enumerate(right + wrong):
        with open("h.npy", "wb") as f:
            f.write(content)
        code, out, err = staxc("run", graph, "--in", "x=h.npy", "--backend=interpret")
        if k < len(right):
            check(code == 0 and out == "y: f32[3] = [1.0, 2.0, 3.0]\n", f"header {content!r}: exit {code}: {out}{err}")
        else:
            check(code == 1 and err.startswith("staxc: error: ") and "h.npy" in err, f"damaged {content!r}: exit {code}: {out}{err}")
    chance = random.Random(1)
    whole = npy(usual)
    damaged = [whole[:n] for n in range(0, len(whole), 3)]
    for _ in range(150):
        b = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 5])):
            b[chance.randrange(len(b) - 12)] = chance.choice([0, 255, 39, 40, 44, 123, chance.randrange(256)])
        damaged.append(bytes(b))
    for content in damaged:
        with open("h.npy", "wb") as f:
            f.write(content)
        code, out, err = staxc("run", graph, "--in=x=h.npy", "--backend=interpret")
        check(code in (0, 1) and (code == 0 or "error: " in err), f"damaged {content!r}: exit {code}: {err}")
    with open("h.npy", "wb") as f:
        np.save(f, np.array([True, False, True]))
        f.seek(-1, io.SEEK_CUR)
        f.write(b"\x07")
    code, _, err = staxc("run", copy_graph("bool", "3"), "--in=x=h.npy")
    check(code == 1 and "element 2 is byte 7" in err, f"a bool of 7: exit {code}: {err}")


def sizes_states_params():
    graph = file("s.stax", """sizes n: 1..64, m
graph g(x: f32[n,2*m+1] strided, v: f32[m], param w: f32[n], inout s: f32[n]) {
  t = sum x {axes=[1]}
  u = mul t, w
  s2 = add s, u
  assign s, s2
  return u
}
""")
    x, w, s = np.arange(15, dtype="f4").reshape(3, 5), np.array([1, 2, 3], "f4"), np.array([10, 20, 30], "f4")
    np.save("x y.npy", np.asfortranarray(x))
    np.save("w.npy", w)
    np.save("s=.npy", s)
    np.save("v.npy", np.zeros(2, "f4"))
    words = ["run", graph, "--in", "x=x y.npy", "--in=v=v.npy", "--in=w=w.npy", "--in", "s=s=.npy"]
    for more in [], ["--backend=interpret"], ["--check"], ["--threads=2", "--check"], ["--isa=scalar"]:
        code, out, err = staxc(*words, "--out=u=it's u.npy", "--out", "s=s2.npy", *more)
        good = code == 0 and out == "" and np.array_equal(np.load("it's u.npy"), x.sum(1) * w) and np.array_equal(np.load("s2.npy"), s + x.sum(1) * w)
        check(good, f"states and params {more}: exit {code}: {err}")
    check(np.array_equal(np.load("s=.npy"), s), "an input file was changed")
    for size, said in [("n=4", "expected f32[4,"), ("m=3", "expected f32[3,7], found f32[3,5]"), ("n=65", "1..64")]:
        code, _, err = staxc(*words, "--size", size)
        check(code == 1 and said in err, f"--size {size} against files: exit {code}: {err}")
    np.save("w.npy", np.zeros(4, "f4"))
    code, _, err = staxc(*words)
    check(code == 1 and "w.npy" in err, f"sizes that contradict each other: exit {code}: {err}")
    np.save("x y.npy", np.zeros((3, 4), "f4"))
    code, _, err = staxc("run", graph, "--in", "x=x y.npy")
    check(code == 1 and "x y.npy" in err, f"2*m+1 = 4: exit {code}: {err}")
    code, _, err = staxc("run", graph, "--in", "x=none.npy")
    check(code == 1 and "none.npy: No such file" in err, f"a file that is not there: {err}")
    code, _, err = staxc("run", graph, "--in", "x=.")
    check(code == 1, f"a folder as .npy: exit {code}: {err}")


def printing():
    graph = file("p.stax", """graph p(x: f32[2,2,2], h: f16[4], e: f32[0,3]) {
  a = cast x {dtype=f32}
  b = cast h {dtype=f16}
  c = const bf16[4] {1.5, -0.0, nan, 3.1415}
  d = const f8e5m2[3] {1.75, inf, -0.0078125}
  f = const f64[3] {0.1, 1e300, -inf}
  g = const i8[2] {-128, 127}
  i = const u64[1] {18446744073709551615}
  k = const f8e4m3[3] {448.0, nan, 0.001953125}
  l = cast e {dtype=f32}
  m = iota {shape=[2000], axis=0, dtype=i32}
  n = const f32[3] {0.1, 16777216.0, 1e-45}
  return a, b, c, d, f, g, i, k, l, m, n
}
""")
    np.save("x.npy", np.arange(8, dtype="f4").reshape(2, 2, 2))
    np.save("h.npy", np.array([0.1, 65504, 6e-8, 2], "f2"))
    code, out, err = staxc("run", graph, "--in=x=x.npy", "--in=h=h.npy", "--backend=interpret")
    want = """a: f32[2,2,2] =
[[[0.0, 1.0],
  [2.0, 3.0]],
 [[4.0, 5.0],
  [6.0, 7.0]]]
b: f16[4] = [0.1, 65504.0, 6e-08, 2.0]
c: bf16[4] = [1.5, -0.0, nan, 3.14]
d: f8e5m2[3] = [1.75, inf, -0.0078125]
f: f64[3] = [0.1, 1e+300, -inf]
g: i8[2] = [-128, 127]
i: u64[1] = [18446744073709551615]
k: f8e4m3[3] = [448.0, nan, 0.001953125]
l: f32[0,3] =
[]
m: i32[2000] = [0, 1, 2, ..., 1997, 1998, 1999]
n: f32[3] = [0.1, 16777216.0, 1e-45]
"""
    got, wanted = out.split("\n"), want.split("\n")
    different = [(a, b) for a, b in zip(got, wanted) if a != b]
    check(code == 0 and got == wanted, f"printed values: exit {code}: {different or (len(got), len(wanted))} {err}")


def seeds():
    graph = file("f.stax", "graph f(" + ", ".join(f"{d}: {d}[1000]" for d in ("f64", "f32", "f16", "bf16", "i64", "i8", "u8", "bool", "f8e4m3", "f8e5m2")).replace("bool:", "b:")
                 + ") {\n" + "".join(f"  o_{d} = cast {'b' if d == 'bool' else d} {{dtype=f64}}\n" for d in ("f64", "f32", "f16", "bf16", "i64", "i8", "u8", "bool", "f8e4m3", "f8e5m2"))
                 + "  return " + ", ".join(f"o_{d}" for d in ("f64", "f32", "f16", "bf16", "i64", "i8", "u8", "bool", "f8e4m3", "f8e5m2")) + "\n}\n")
    graph_text = open(graph).read()
    for d in ("f64", "f32", "f16", "bf16", "i64", "i8", "u8", "f8e4m3", "f8e5m2"):
        graph_text = graph_text.replace(f"{d}: {d}[", f"in_{d}: {d}[").replace(f"cast {d} ", f"cast in_{d} ")
    file("f.stax", graph_text)
    names = [f"o_{d}" for d in ("f64", "f32", "f16", "bf16", "i64", "i8", "u8", "bool", "f8e4m3", "f8e5m2")]
    code, _, err = staxc("run", graph, "--backend=interpret", "--seed=7", *[f"--out={n}={n}.npy" for n in names])
    check(code == 0, f"seeds: exit {code}: {err}")
    for n in names if code == 0 else []:
        a = np.load(n + ".npy")
        low, high = (0, 1) if n == "o_bool" else (0, 7) if n[2] in "iu" else (-2, 2)
        # Statistics, the bits are below. A uniform number's standard deviation is its range / sqrt(12), a
        # mean's that / sqrt(n); five of them. Of k whole numbers the range is at most k. Of f8 numbers the
        # last below 2 is 1.5 or 1.75, so the middle is that of the least and the greatest that are there.
        far = 5 * (high - low + (low == 0)) / math.sqrt(12 * len(a))
        check(a.min() >= low and a.max() <= high and len(set(a)) > 1 and abs(a.mean() - (a.min() + a.max()) / 2) < far, f"seeds: {n}: {a.min()}..{a.max()}, mean {a.mean()}")
    # these never change, on any machine
    code, out, _ = staxc("run", "-", "--seed=7", "--backend=interpret", text="graph g(x: f32[3], i: i32[3]) { y = abs x; j = abs i; return y, j }")
    check(code == 0 and out == PINNED, f"seed 7 gives {out!r}, expected {PINNED!r}")


PINNED = "y: f32[3] = [0.08771753, 0.5845344, 1.5908117]\nj: i32[3] = [7, 0, 3]\n"


def json_reports():
    graph = file("j.stax", "graph j(x: f32[64,128], w: f32[64,128]) { t = add x, w; r = relu t; y = sum r {axes=[1]}; return y }")
    fields = {"name", "median_ms", "low_ms", "high_ms", "min_ms", "runs", "threads", "isa", "kernels", "bytes", "flops", "workspace_bytes", "compile_ms", "call_overhead_ns"}
    for vs in None, "interpret", "op-by-op", "j.stax":
        code, out, err = staxc("bench", graph, "--json", "--runs=9", *([f"--vs={vs}"] if vs else []))
        if code != 0:
            check(False, f"bench --json --vs={vs}: exit {code}: {err}")
            continue
        r = json.loads(out)
        check(fields <= set(r) and r["name"] == "j" and r["runs"] == 9, f"bench fields: {fields - set(r)}")
        check(0 < r["min_ms"] <= r["low_ms"] <= r["median_ms"] <= r["high_ms"], f"bench figures: {r}")
        check(r["kernels"] == 1 and r["bytes"] >= 65536 and r["flops"] > 0 and r["call_overhead_ns"] > 0, f"bench figures: {r}")
        check(("vs" in r) == bool(vs) and (not vs or (fields <= set(r["vs"]) and r["ratio_low"] <= r["ratio"] <= r["ratio_high"])), f"bench vs: {r}")
        more = {"allocates", "eager_bytes", "coverage", "rounds", "kernel_times"}
        check(more <= set(r) and len(r["rounds"]) == 2 and r["coverage"] > 0.95, f"bench fields: {more - set(r)}")
        timed = {"name", "ops", "calls", "bytes", "flops", "median_ms", "predicted_ms", "bound", "near"}
        check(len(r["kernel_times"]) == 1 and timed <= set(r["kernel_times"][0]), f"bench kernels: {r['kernel_times']}")
        check(not vs or {"faster", "ratio_rounds", "break_even_calls"} <= set(r), f"bench vs: {list(r)}")
        if vs == "op-by-op":
            check(abs(r["rho"] * r["beta_ratio"] * r["median_ms"] / r["vs"]["median_ms"] - 1) < 1e-6, f"P 13.3: {r}")
            check(r["vs"]["kernels"] > 1, f"op-by-op is fused: {r['vs']}")
    code, out, err = staxc("explain", graph, "--json")
    check(code == 0, f"explain --json: exit {code}: {err}")
    if code == 0:
        r = json.loads(out)
        check({"kernels", "fusions", "rho", "bound_bytes", "workspace_bytes", "peak_lower_bound"} <= set(r), f"explain fields: {list(r)}")
        check(all({"name", "ops", "reads", "writes", "bytes", "flops", "predicted_ms", "why"} <= set(k) for k in r["kernels"]), f"explain kernels: {r['kernels']}")
        check(all({"a", "b", "done", "why"} <= set(k) for k in r["fusions"]), f"explain fusions: {r['fusions']}")
        check({"bytes_formula", "flops_formula", "allocates", "intensity", "bound", "contractions"} <= set(r["kernels"][0]), f"explain kernels: {r['kernels']}")
        check({"bytes", "eager_bytes", "bound_ratio", "predicted_ms", "machine", "sizes"} <= set(r), f"explain fields: {list(r)}")
    loop = file("loop.stax", "graph g(x: f32[4]) { n = const i64[] {3}; y = loop n, x { body(i: i64[], a: f32[4]) { b = exp a; return b } }; return y }")
    code, out, err = staxc("explain", loop, "--json")
    r = json.loads(out) if code == 0 else {}
    check({"kernels", "fusions", "rho", "bound_bytes", "workspace_bytes", "peak_lower_bound", "steps"} <= set(r), f"explain of regions: exit {code}: {err} {list(r)}")
    code, out, err = staxc("probe", "--threads=1", "--json")
    r = json.loads(out) if code == 0 else []
    check(len(r) == 1 and r[0]["measured"] and r[0]["levels"][-1]["name"] == "memory", f"probe: exit {code}: {err} {r}")


dtypes_and_layouts()
headers()
sizes_states_params()
printing()
seeds()
json_reports()
print(f"staxc_npy_test: {COUNT - len(FAILED)} passed, {len(FAILED)} failed")
sys.exit(1 if FAILED else 0)
