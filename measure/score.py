"""The one scorer: the program beside the reference evidence, as a module, and the figures that it is asked for."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

from measure.running import SHARED

#: Figures of one diagnosed job and what is asked of them.
FIGURES = (
    ("event_f1", 0.93),
    ("line_f1", 0.85),
    ("node_top1", 0.97),
    ("node_f1", 0.93),
    ("category_ok", 0.95),
    ("subcategory_ok", 0.90),
    ("symptom_ok", 0.95),
    ("stage_ok", 0.92),
    ("iteration_hit", 0.95),
)


@cache
def scorer() -> ModuleType:
    """The scoring program as a module."""
    path = SHARED / "tools" / "score.py"
    spec = importlib.util.spec_from_file_location("score", path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"the scorer was not found at {path}; set FAULTLINE_SHARED")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
