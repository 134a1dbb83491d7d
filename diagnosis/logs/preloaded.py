"""Loads the compiled code when it is imported: by the server of :mod:`diagnosis.parse_pool`, so that the processes that
it forks share it. Numba takes a second of processor time, and starts no threads.
"""

from __future__ import annotations

import gc

import numpy as np

from diagnosis import jit
from diagnosis.logs import hashing, reader

__all__ = ["reader"]

jit.load()
hashing.tally(np.zeros(1, np.int64), np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.uint8))
gc.freeze()  # memory that is shared until a search for cycles writes into it
