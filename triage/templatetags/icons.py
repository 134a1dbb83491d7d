"""Drawings used in pages: one path each, 16 × 16, drawn in the colour of the text around them."""

from __future__ import annotations

_STROKE = 'fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"'
PATHS: dict[str, str] = {
    "mark": f'<path {_STROKE} d="M1 9h3.5L6 4l3.5 8L11 7h4"/>',
    "theme": '<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor"/>',
    "person": f'<circle cx="8" cy="5.5" r="2.8" {_STROKE}/><path {_STROKE} d="M2.5 14c.6-3 2.8-4.3 5.5-4.3s4.9 1.3 5.5 4.3"/>',
    "close": f'<path {_STROKE} d="M4 4l8 8M12 4l-8 8"/>',
    "check": f'<path {_STROKE} d="M3 8.5 6.5 12 13 4.5"/>',
    "cross": f'<path {_STROKE} d="M4.5 4.5l7 7M11.5 4.5l-7 7"/>',
    "pen": f'<path {_STROKE} d="M3 13l.7-3L11 2.8 13.2 5 6 12.3z"/>',
    "copy": f'<rect x="5.5" y="5.5" width="8" height="8" rx="1.5" {_STROKE}/><path {_STROKE} d="M3 10.5V3.8C3 3.3 3.3 3 3.8 3h6.7"/>',
    "link": f'<path {_STROKE} d="M6.5 9.5l3-3M7 4.8l1.3-1.3a2.8 2.8 0 0 1 4 4L11 8.8M9 11.2l-1.3 1.3a2.8 2.8 0 0 1-4-4L5 7.2"/>',
    "down": f'<path {_STROKE} d="M4 6l4 4 4-4"/>',
    "right": f'<path {_STROKE} d="M6 4l4 4-4 4"/>',
    # shapes of state
    "ring": f'<circle cx="8" cy="8" r="4.5" {_STROKE}/>',
    "dot": '<circle cx="8" cy="8" r="4.5" fill="currentColor"/>',
    "question": f'<path {_STROKE} d="M5.5 6a2.5 2.5 0 1 1 3.4 2.3c-.6.3-.9.7-.9 1.4M8 12.6v.1"/>',
    "flag": f'<path {_STROKE} d="M4 14V3h8l-2 3 2 3H4"/>',
    "lock": f'<rect x="4" y="7" width="8" height="6" rx="1" {_STROKE}/><path {_STROKE} d="M5.8 7V5a2.2 2.2 0 0 1 4.4 0v2"/>',
    # shapes of symptom
    "crash": '<path fill="currentColor" d="M8 2l6.5 11.5h-13z"/>',
    "hang": '<rect x="3" y="3" width="10" height="10" rx="1" fill="currentColor"/>',
    "slow": '<path fill="currentColor" d="M8 1.5 14.5 8 8 14.5 1.5 8z"/>',
    "launch_failure": '<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="3"/>',
    "none": f'<path {_STROKE} d="M3 8h10"/>',
}
