"""Time against lines, nodes and templates, as a picture: `python -m lab.measure linear [--out docs/linear.svg]`.

Parses and diagnoses made-up jobs (`lab.exams.large`) that grow in lines a node and in nodes, and logs that grow in
distinct messages; prints CPU seconds (least disturbed by other programs), the best of `--repeat` runs, and draws them
with the straight line that a linear cost would follow to the largest.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from diagnosis import ParseHints, parse
from diagnosis.kinds.logs.rows import templates
from lab.measure.job import measure

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 300, 240, 48, 34, 30, 44
type Points = list[tuple[float, float]]


def _job(nodes: int, lines: int) -> float:
    found = measure(nodes, lines)
    return found.parse_cpu_s + found.diagnose_cpu_s


def _messages(count: int) -> float:
    """CPU seconds to parse and cluster a log of ``count`` messages that differ in two words each."""
    rng = random.Random(count)
    words = ["".join(rng.choices("ghijklmnopqrstuvwxyz", k=6)) for _ in range(2 * count)]
    data = "".join(
        f"2026-03-01 08:00:00 {words[2 * n]} of {words[2 * n + 1]} took {n} ms\n" for n in range(count)
    ).encode()
    cpu = time.process_time()
    with tempfile.TemporaryDirectory() as work:
        parsed = parse(io.BytesIO(data), "x.log", ParseHints(), Path(work))
        assert parsed.uniques
        templates.of_texts(pl.read_parquet(parsed.uniques)["text"].to_list())
    return time.process_time() - cpu


def _panel(at: int, title: str, unit: str, points: Points) -> str:
    """One picture, ``at`` pixels from the left: measured points and the straight line to the last of them."""
    most_x, most_y = points[-1][0], 1.1 * max(y for _, y in points)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return at + _LEFT + wide * x / most_x, _TOP + high * (1 - y / most_y)

    (x0, y0), (x1, y1) = place(0, 0), place(*points[-1])
    out = [
        f'<text class="title" x="{at + _LEFT}" y="20">{title}</text>',
        f'<path class="axis" d="M{x0:.1f} {_TOP} V{y0:.1f} H{at + _WIDTH - _RIGHT}"/>',
        f'<path class="linear" d="M{x0:.1f} {y0:.1f} L{x1:.1f} {y1:.1f}"/>',
        f'<text x="{at + _LEFT + wide / 2:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{unit}</text>',
    ]
    for x, y in points:
        left, top = place(x, y)
        out.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="4"><title>{x:,.0f} {unit}: {y:.2f} s</title></circle>')
    for share in (0.0, 0.5, 1.0):
        left, _ = place(share * most_x, 0)
        _, top = place(0, share * most_y / 1.1)
        out.append(f'<text x="{left:.1f}" y="{y0 + 16:.1f}" text-anchor="middle">{share * most_x:,.0f}</text>')
        out.append(f'<text x="{x0 - 6:.1f}" y="{top + 4:.1f}" text-anchor="end">{share * most_y / 1.1:.1f}</text>')
    return "\n".join(out)


def draw(panels: list[tuple[str, str, Points]]) -> str:
    """The picture as SVG."""
    body = "\n".join(_panel(number * _WIDTH, *panel) for number, panel in enumerate(panels))
    style = (
        "text{font:11px sans-serif;fill:#444}.title{font-weight:bold}.axis{fill:none;stroke:#888}"
        ".linear{fill:none;stroke:#c60;stroke-dasharray:4 3}circle{fill:#06c}"
        "@media(prefers-color-scheme:dark){text{fill:#ccc}circle{fill:#6bf}}"
    )
    size = f'width="{_WIDTH * len(panels)}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH * len(panels)} {_HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{style}</style>\n{body}\n</svg>\n'


def main() -> None:
    """Measures, prints and draws."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[2] / "docs" / "linear.svg")
    options.add_argument("--repeat", type=int, default=2)
    chosen = options.parse_args()
    _job(8, 500)  # loads the compiled code
    axes: list[tuple[str, str, list[int], Callable[[int], float]]] = [
        ("CPU s against lines", "lines (32 nodes)", [5_000, 10_000, 20_000, 40_000], lambda n: _job(32, n)),
        ("CPU s against nodes", "nodes (2,000 lines each)", [64, 128, 256, 512], lambda n: _job(n, 2_000)),
        ("CPU s against messages", "distinct messages", [4_000, 8_000, 16_000, 32_000], _messages),
    ]
    panels = []
    for title, unit, sizes, cost in axes:
        points: Points = []
        for size in sizes:
            spent = min(cost(size) for _ in range(chosen.repeat))
            points.append((size * 32.0 if "lines (" in unit else float(size), spent))
            print(f"{title}: {points[-1][0]:>12,.0f} {spent:8.2f} s", flush=True)
        panels.append((title, unit, points))
    chosen.out.write_text(draw(panels), encoding="utf-8")
