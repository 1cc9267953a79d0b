"""What fit_f32.py and fit_f64.py share: fits by name, run from the command line."""

import sys

FITS = {}


def named(f):
    """Makes f a fit that the command line knows by its name."""
    FITS[f.__name__.rstrip('_')] = f
    return f


def run():
    """The fits that the command line names, or all."""
    for name in sys.argv[1:] or FITS:
        FITS[name]()
