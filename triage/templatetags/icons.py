"""Icons of the pages: one path each, 16 × 16, in the colour of the text."""

from __future__ import annotations

_S = 'fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"'


def _line(path: str) -> str:
    return f'<path {_S} d="{path}"/>'


def _circle(x: float, y: float, r: float, style: str = _S) -> str:
    return f'<circle cx="{x}" cy="{y}" r="{r}" {style}/>'


def _box(x: float, y: float, size: float, style: str = _S) -> str:
    return f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="1.2" {style}/>'


_FULL = 'fill="currentColor"'
_CHAIN = "M6.5 9.5l3-3M7 4.8l1.3-1.3a2.8 2.8 0 0 1 4 4L11 8.8M9 11.2l-1.3 1.3a2.8 2.8 0 0 1-4-4L5 7.2"

PATHS: dict[str, str] = {
    "mark": _line("M1 9h3.5L6 4l3.5 8L11 7h4"),
    "theme": _circle(8, 8, 6) + f'<path d="M8 2a6 6 0 0 1 0 12z" {_FULL}/>',
    "person": _circle(8, 5.5, 2.8) + _line("M2.5 14c.6-3 2.8-4.3 5.5-4.3s4.9 1.3 5.5 4.3"),
    "close": _line("M4 4l8 8M12 4l-8 8"),
    "check": _line("M3 8.5 6.5 12 13 4.5"),
    "cross": _line("M4.5 4.5l7 7M11.5 4.5l-7 7"),
    "pen": _line("M3 13l.7-3L11 2.8 13.2 5 6 12.3z"),
    "copy": _box(5.5, 5.5, 8) + _line("M3 10.5V3.8C3 3.3 3.3 3 3.8 3h6.7"),
    "link": _line(_CHAIN),
    "down": _line("M4 6l4 4 4-4"),
    "right": _line("M6 4l4 4-4 4"),
    "left": _line("M10 4l-4 4 4 4"),
    # shapes of state
    "ring": _circle(8, 8, 4.5),
    "dot": _circle(8, 8, 4.5, _FULL),
    "question": _line("M5.5 6a2.5 2.5 0 1 1 3.4 2.3c-.6.3-.9.7-.9 1.4M8 12.6v.1"),
    "flag": _line("M4 14V3h8l-2 3 2 3H4"),
    "lock": _box(4, 7, 8).replace('height="8"', 'height="6"') + _line("M5.8 7V5a2.2 2.2 0 0 1 4.4 0v2"),
    # shapes of symptom
    "crash": f'<path {_FULL} d="M8 2l6.5 11.5h-13z"/>',
    "hang": _box(3, 3, 10, _FULL),
    "slow": f'<path {_FULL} d="M8 1.5 14.5 8 8 14.5 1.5 8z"/>',
    "launch_failure": _circle(8, 8, 5.5, 'fill="none" stroke="currentColor" stroke-width="3"'),
    "none": _line("M3 8h10"),
}
