#!/usr/bin/env python3
"""Fits the polynomial coefficients of the f64 functions of stax.h.

    python3 tools/fit/fit_f64.py            all fits
    python3 tools/fit/fit_f64.py sin erf    only those

A fit is a weighted minimax polynomial (Remez exchange on a Chebyshev grid, 60 digits). The
coefficients are rounded to f64 one by one from the lowest power, the rest is fitted again after
each, and in the end they are nudged by single ulps. Printed: the worst weighted error (as a power
of two) before and after rounding, and the coefficients c0, c1, ...
Needs mpmath and numpy; gmpy2 makes it several times faster."""

import mpmath as mp
import numpy as np

from fits import named, run

mp.mp.dps = 60
one = mp.mpf(1)


def remez(fx, wx, basis, rounds=40):
    """Coefficients c minimising max w |f - sum c_j basis_j| on the grid; basis: its columns."""
    n, m = len(basis), len(fx)
    idx = [int(round((m - 1) * (1 - float(mp.cos(mp.pi * i / n))) / 2)) for i in range(n + 1)]
    idx = sorted(min(max(i, 1), m - 2) for i in set(idx))
    while len(idx) < n + 1:
        idx = sorted(set(idx) | {next(i for i in range(m) if i not in idx)})
    c, best = None, None
    for _ in range(rounds):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for r, i in enumerate(idx):
            for j in range(n):
                a[r, j] = basis[j][i] * wx[i]
            a[r, n] = one if r % 2 == 0 else -one
            b[r] = fx[i] * wx[i]
        try:
            s = mp.lu_solve(a, b)
        except ZeroDivisionError:
            break
        c = [s[j] for j in range(n)]
        e = [(fx[i] - mp.fsum(c[j] * basis[j][i] for j in range(n))) * wx[i] for i in range(m)]
        worst = max(abs(v) for v in e)
        if best is None or worst < best[0]:
            best = (worst, c)
        if worst <= abs(s[n]) * (one + mp.mpf('1e-4')):
            break
        runs = []  # the extreme of each run of one sign
        for i in range(m):
            if runs and (e[runs[-1]] > 0) == (e[i] > 0):
                if abs(e[i]) > abs(e[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n + 1:
            runs.pop(0 if abs(e[runs[0]]) < abs(e[runs[-1]]) else -1)
        if len(runs) < n + 1:
            break
        idx = runs
    return best


def nudge(c, cols, rest, wx, start):
    """Moves coefficients by an ulp, one or two at a time, while that lowers the worst error."""
    e = np.array([float(r * w) for r, w in zip(rest, wx)])
    kept = c[:start]
    c = [float(v) for v in c]

    def column(j):
        return np.array([float(v * w) for v, w in zip(cols[j], wx)])

    w = [column(j) for j in range(len(cols))]
    for _ in range(60):
        steps = [(j, s * np.spacing(abs(c[j]))) for j in range(start, len(c)) for s in (1, -1)]
        shift = [d * w[j] for j, d in steps]
        best, found = np.abs(e).max(), None
        for a in range(len(steps)):
            ea = e - shift[a]
            for b in range(a, len(steps)):
                if steps[b][0] == steps[a][0] and b != a:
                    continue
                eb = ea if b == a else ea - shift[b]
                v = np.abs(eb).max()
                if v < best * 0.9999:
                    best, found = v, (a, b)
        if not found:
            break
        for i in set(found):
            e = e - shift[i]
            c[steps[i][0]] += steps[i][1]
    return kept + [mp.mpf(v) for v in c[start:]]


def fit(name, f, powers, lo, hi, w, grid=None, fixed=(), var=None, tail=False):
    """f and w are functions of x in [lo, hi]; the polynomial is in var(x) (default x).
    With a tail, c0 is the sum of two f64 numbers."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    m = grid or 24 * len(powers)  # even: no point in the middle, where f is 0 / 0
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mp.mpf('0.5')) / m) for i in range(m)]
    vs = [var(x) if var else x for x in xs]
    fx, wx = [f(x) for x in xs], [w(x) for x in xs]
    cols = [[v**p for v in vs] for p in powers]
    got, ideal = [], None
    rest, left = fx, wx
    for i in range(
        len(powers)
    ):  # after a coefficient: divide by v, so the basis is 1, v, ... again
        worst, c = remez(rest, left, cols[: len(powers) - i])
        if i == 0:
            ideal, plain = worst, [mp.mpf(float(v)) for v in c]
            if tail:
                plain[0] += mp.mpf(float(c[0] - plain[0]))
        got.append(
            plain[0] if tail and i == 0 else mp.mpf(float(fixed[i] if i < len(fixed) else c[0]))
        )
        rest = [(rest[k] - got[i]) / vs[k] for k in range(m)]
        left = [left[k] * abs(vs[k]) for k in range(m)]

    def worst_of(p):
        return max(
            abs(fx[k] - mp.fsum(p[j] * cols[j][k] for j in range(len(p)))) * wx[k] for k in range(m)
        )

    if (
        worst_of(plain) < worst_of(got) and not fixed
    ):  # where v changes sign, fitting again does not always help
        got = plain
    got = nudge(
        got,
        cols,
        [fx[k] - mp.fsum(got[j] * cols[j][k] for j in range(len(got))) for k in range(m)],
        wx,
        1 if tail else len(fixed),
    )
    err = worst_of(got)
    print(
        '%s: error 2^%.2f, rounded 2^%.2f' % (name, float(mp.log(ideal, 2)), float(mp.log(err, 2)))
    )
    print('   ' + ', '.join('%.17g' % float(c) for c in got), end='')
    print(', tail of c0 %.17g' % float(got[0] - mp.mpf(float(got[0]))) if tail else '', flush=True)
    return got


def deg(n, first=0):
    return list(range(first, n + 1))


def fit_odd(name, f, n, hi, lo='1e-15'):
    """f(x) = x + x^3 P(x^2), P of degree n, the error relative to f"""
    fit(
        name,
        lambda x: (f(x) - x) / x**3,
        deg(n),
        mp.mpf(lo),
        mp.mpf(hi),
        lambda x: x**3 / f(x),
        var=lambda x: x * x,
    )


LN2H = mp.log(2) / 2 * mp.mpf('1.0001')


@named
def exp():  # e^r = 1 + r + r^2 q(r); expm1's is relative to e^r - 1
    def q(r):
        return (mp.expm1(r) - r) / r**2

    fit('exp q', q, deg(9), -LN2H, LN2H, lambda r: r**2 / mp.exp(r))
    fit('expm1 q', q, deg(10), -LN2H, LN2H, lambda r: r**2 / abs(mp.expm1(r)))


@named
def sinhcosh():  # sinh r = r + r^3 P(r^2), cosh r = 1 + r^2 / 2 + r^4 Q(r^2)
    fit_odd('sinh', mp.sinh, 4, LN2H, '1e-20')
    fit(
        'cosh',
        lambda r: (mp.cosh(r) - 1 - r**2 / 2) / r**4,
        deg(4),
        mp.mpf('1e-20'),
        LN2H,
        lambda r: r**4,
        var=lambda r: r * r,
    )


@named
def log():  # log(1 + f) = 2 s + s R(s^2), s = f / (2 + f); R = z P(z)
    b = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf('1.0001')
    fit(
        'log P',
        lambda s: (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3,
        deg(6),
        mp.mpf('1e-15'),
        b,
        lambda s: s**3 / mp.log((1 + s) / (1 - s)),
        var=lambda s: s * s,
    )


@named
def sin():  # sin r = r + r^3 S(r^2), cos r = 1 - r^2 / 2 + r^4 C(r^2)
    e, b = mp.mpf('1e-15'), mp.pi / 4 * mp.mpf('1.0001')
    fit_odd('sin', mp.sin, 5, b)
    fit(
        'cos',
        lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4,
        deg(5),
        e,
        b,
        lambda r: r**4 / mp.cos(r),
        var=lambda r: r * r,
    )


@named
def asin():
    fit_odd('asin', mp.asin, 12, '0.5001')


@named
def atan():
    fit_odd('atan', mp.atan, 12, '0.5001')


@named
def erf():  # |x| <= 1.375: x + x P(x^2 - 3/4); above: 1 - p^8, p in x - 3.5
    b = mp.mpf('1.375')
    fit(
        'erf small',
        lambda x: mp.erf(x) / x - 1,
        deg(16),
        mp.mpf('1e-15'),
        b,
        lambda x: x / mp.erf(x),
        var=lambda x: x * x - mp.mpf('0.75'),
    )
    fit(
        'erf big',
        lambda x: mp.erfc(x) ** (one / 8),
        deg(16),
        b,
        5.95,
        lambda x: 8 * mp.erfc(x) ** (1 - one / 8),
        var=lambda x: x - mp.mpf(3.5),
    )


def scaled_tail(name, k1, k4, end, g, slope):
    """g(a) (a + k1) as a polynomial in v = 1 - 2 k4 y, y = 1 / (a + k4);
    and how its logarithm moves with that of y."""
    k1, k4 = mp.mpf(k1), mp.mpf(k4)
    lo, hi = 1 / (end + k4), 1 / k4

    def a(y):
        return 1 / y - k4

    fit(
        name,
        lambda y: g(a(y)) * (a(y) + k1),
        deg(22),
        lo,
        hi,
        lambda y: 1 / (g(a(y)) * (a(y) + k1)),
        var=lambda y: 1 - 2 * k4 * y,
        tail=True,
    )
    fit(
        name + ' slope',
        lambda y: -(slope(a(y)) + 1 / (a(y) + k1)) / y,
        deg(4),
        lo,
        hi,
        lambda y: one,
        var=lambda y: 1 - 2 * k4 * y,
    )


@named
def erfc():  # erfc(a) = exp(-a^2) G(v) / (a + 1)
    def g(a):
        return mp.erfc(a) * mp.exp(a * a)

    scaled_tail('erfc G', 1, 4, 28, g, lambda a: 2 * a - 2 / (mp.sqrt(mp.pi) * g(a)))


@named
def gelu():  # Phi(-a) = exp(-a^2 / 2) G(v) / (a + 1.375)
    def g(a):
        return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2

    scaled_tail('gelu G', '1.375', '5.5', 40, g, lambda a: a - 1 / (mp.sqrt(2 * mp.pi) * g(a)))


@named
def cbrt():  # m^(-1/3), a first guess
    fit('cbrt guess', lambda m: m ** (-one / 3), deg(5), 1, 2, lambda m: m ** (one / 3))


@named
def pow_():  # atanh(s) / s = 1 + z / 3 + z^2 Q(z), z = s^2; stax.h has c0 less 52429 / 2^18
    b = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf('1.0001')
    fit(
        'pow Q',
        lambda s: (mp.atanh(s) / s - 1 - s * s / 3) / s**4,
        deg(8),
        mp.mpf('1e-12'),
        b,
        lambda s: s**4,
        var=lambda s: s * s,
    )


if __name__ == '__main__':
    run()
