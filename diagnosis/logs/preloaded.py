"""Loads the compiled code when it is imported: by the server of :mod:`diagnosis.parse_pool`, so that the processes that
it forks share it. Numba takes a second of processor time, and starts no threads.
"""

from __future__ import annotations

import gc

from diagnosis.logs import hashing, reader

__all__ = ["reader"]

hashing.warm_up()
gc.freeze()  # memory that is shared until a search for cycles writes into it
