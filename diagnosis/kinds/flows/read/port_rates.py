"""Rates of switch ports over time, as they are stored among the facts of an artifact."""

from __future__ import annotations

import msgspec


class PortRates(msgspec.Struct, frozen=True):
    """Bits a second of one port in each slice, both ways, and the highest of all."""

    port: str
    in_bps: list[float]
    out_bps: list[float]
    peak_bps: float


class Bandwidth(msgspec.Struct, frozen=True):
    """Rates of ports in equal slices of ``slice_s`` from ``t0`` to ``t1`` (epoch seconds). ``ports``: the busiest of
    ``ports_total``.
    """

    t0: float
    t1: float
    slice_s: float
    ports: list[PortRates]
    ports_total: int
