#!/usr/bin/env python3
"""Fits the polynomial coefficients of the f32 functions of stax.h.

Minimax polynomials, each coefficient rounded to f32 in turn.

    python3 tools/fit/fit_f32.py            all fits
    python3 tools/fit/fit_f32.py exp tan    only those

Printed: the error bound relative to the result (as a power of two), and the literals. Where several
degrees are printed, stax.h has the lowest that serves. Needs numpy and mpmath."""

import numpy as np
import mpmath as mp

from fits import named, run

mp.mp.dps = 40


def lawson(A, y, w, rounds=400):
    """min over c of max |w (A c - y)|: least squares, reweighted until the peaks are level."""
    lw = np.ones(len(y))
    best = None
    for _ in range(rounds):
        s = np.sqrt(lw) * w
        c = np.linalg.lstsq(A * s[:, None], y * s, rcond=None)[0]
        e = abs(A @ c - y) * w
        m = e.max()
        if best is None or m < best[0]:
            best = (m, c.copy())
        lw *= e / m + 1e-3
        lw /= lw.sum()
    return best[1]


def value(c, v):
    return sum(mp.mpf(cj) * mp.mpf(float(v)) ** j for j, cj in enumerate(c))


def fit(name, f, weight, lo, hi, n, nodes=1200, fixed=()):
    """f(v) on [lo, hi] by c0 + c1 v + ...; the error counts times weight(v).

    fixed: leading coefficients that are given."""
    th = (np.arange(nodes) + 0.5) * np.pi / nodes
    x = (lo + hi) / 2 + (hi - lo) / 2 * np.cos(th)
    y = np.array([f(mp.mpf(float(v))) for v in x])
    w = np.array([float(abs(weight(mp.mpf(float(v))))) for v in x])
    c = []
    for i in range(n):
        if i < len(fixed):
            c.append(float(np.float32(fixed[i])))
        else:
            A = np.array([[v**j for j in range(n - i)] for v in x])  # in units of v^i
            rest = np.array([float(t - value(c, v)) for t, v in zip(y, x)])
            t = lawson(A * (x**i)[:, None], rest, w)[0]
            c.append(float(np.float32(t)))
    e = max(float(abs(value(c, v) - t)) * wv for t, v, wv in zip(y, x, w))
    print("%-18s 2^%.2f  %s" % (name, np.log2(e), ", ".join("%.9gf" % t for t in c)), flush=True)
    return c


sq = mp.sqrt
ln2 = mp.log(2)


def odd(f, limit):  # f(x) = x + x z P(z), z = x^2
    def g(z):
        if z < mp.mpf(10) ** -16:
            return limit
        x = sq(z)
        return (f(x) - x) / (x * z)

    return g, lambda z: z * sq(z) / f(sq(z)) if z > 0 else mp.mpf(0)


def phi_tanh(a):  # 1 - the factor of x in gelu's tanh form, at -a
    return 1 / (1 + mp.exp(2 * sq(2 / mp.pi) * (a + mp.mpf("0.044715") * a**3)))


@named
def exp():  # e^r = 1 + (r + r^2 q(r))
    L = float(ln2) / 2 * 1.001
    fit(
        "exp",
        lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-9 else mp.mpf(0.5),
        lambda r: r * r / mp.exp(r),
        -L,
        L,
        5,
    )


@named
def expm1():  # the same, error relative to e^r - 1
    L = float(ln2) / 2 * 1.001
    for n in (5, 6):
        fit(
            "expm1 %d" % n,
            lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-9 else mp.mpf(0.5),
            lambda r: r * r / mp.expm1(r) if r else mp.mpf(0),
            -L,
            L,
            n,
        )


@named
def log():  # log(1 + f) = f + f^2 (f P(f) - 1/2)
    fit(
        "log",
        lambda v: (mp.log1p(v) - v + v * v / 2) / v**3 if abs(v) > 1e-9 else mp.mpf(1) / 3,
        lambda v: v**3 / mp.log1p(v) if v else mp.mpf(0),
        float(sq(0.5)) - 1,
        float(sq(2)) - 1,
        8,
    )


@named
def gelu_tanh():
    c = mp.mpf("0.8")
    g = lambda a2: (mp.mpf(0.5) - phi_tanh(sq(a2))) / sq(a2) if a2 > 1e-12 else sq(2 / mp.pi) / 2
    fit(
        "gelu_tanh small",
        lambda z: g(z + c),
        lambda z: sq(z + c) / (1 - phi_tanh(sq(z + c))),
        -0.8,
        1.59**2 - 0.8,
        8,
    )
    for far in (5.2, 5.4, 5.6):
        fit(
            "gelu_tanh big %g" % far,
            lambda z: phi_tanh(z + mp.mpf("1.59")) ** mp.mpf(0.25),
            lambda z: 4 * phi_tanh(z + mp.mpf("1.59")) ** mp.mpf(0.75),
            0,
            far - 1.59,
            8,
        )


@named
def sincos():
    L = float(mp.pi) / 4 * 1.0005
    g, w = odd(mp.sin, -mp.mpf(1) / 6)
    fit("sin", g, w, 0, L * L, 4)
    fit("sin 3", g, w, 0, L * L, 3)
    fit(
        "cos",
        lambda z: (mp.cos(sq(z)) - 1) / z if z > 1e-16 else mp.mpf(-0.5),
        lambda z: z / mp.cos(sq(z)),
        0,
        L * L,
        4,
        fixed=(-0.5,),
    )


def fit_odd(name, f, limit, degrees, *tops):
    """f(x) = x + x z P(z), z = x^2 up to each top; limit: P(0)"""
    g, w = odd(f, limit)
    for top in tops:
        for n in degrees:
            fit("%s %d %g" % (name, n, top), g, w, 0, top, n)


third, sixth = mp.mpf(1) / 3, mp.mpf(1) / 6


@named
def tan():
    fit_odd("tan", mp.tan, third, (6, 7), (float(mp.pi) / 4 * 1.0005) ** 2)


@named
def asin():
    fit_odd("asin", mp.asin, sixth, (5, 6), 0.2501)


@named
def atan():
    fit_odd("atan", mp.atan, -third, (8, 9), 1)


@named
def sinh():
    fit_odd("sinh", mp.sinh, sixth, (3, 4), 1)


@named
def asinh():
    fit_odd("asinh", mp.asinh, -sixth, (2, 3, 4), 0.125**2, 0.25**2)


@named
def atanh():
    fit_odd("atanh", mp.atanh, third, range(2, 9), 0.125**2, 0.25**2, 0.5**2)


@named
def erfc():  # a > 0.47: erfc a = exp(-a^2) w H(w - c), w = 1 / (a + k)
    k, c = mp.mpf(1), mp.mpf(0.5)
    H = lambda v: mp.exp((1 / (v + c) - k) ** 2) * mp.erfc(1 / (v + c) - k) / (v + c)
    fit(
        "erfc",
        H,
        lambda v: 1 / H(v),
        float(1 / (k + mp.mpf("10.1"))) - 0.5,
        float(1 / (k + mp.mpf("0.47"))) - 0.5,
        11,
    )
    fit(
        "erf small 5",
        lambda z: mp.erf(sq(z)) / sq(z) - 1 if z > 1e-16 else 2 / sq(mp.pi) - 1,
        lambda z: sq(z) / (1 - mp.erf(sq(z))),
        0,
        0.2209,
        5,
    )


@named
def atan_f64():  # for atan2: f64 coefficients, |t| <= tan(pi/8)
    L = 0.17159
    for n in (8, 9, 10):
        th = (np.arange(800) + 0.5) * np.pi / 800
        z = L / 2 + L / 2 * np.cos(th)
        y = np.array([float((mp.atan(sq(mp.mpf(v))) / sq(mp.mpf(v)) - 1) / mp.mpf(v)) for v in z])
        A = np.array([[v**j for j in range(n)] for v in z])
        c = lawson(A, y, z)
        print(
            "atan_f64 %d 2^%.1f " % (n, np.log2((abs(A @ c - y) * z).max())),
            ", ".join("%.17g" % t for t in c),
        )


if __name__ == "__main__":
    run()
