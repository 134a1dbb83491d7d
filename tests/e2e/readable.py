"""What every page must be: readable by everyone in light and dark, and not cut off at any width."""

from __future__ import annotations

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Page

from tests.e2e.conftest import SCHEMES, SIZES, until

#: The schemes differ in colours alone, so that the second one needs no other rule. Nodes that violate nothing are not
#: described: on a long page their descriptions cost more than the rules.
_RULES: tuple[dict[str, object], ...] = ({}, {"runOnly": ["color-contrast"]})
_AXE = "options => axe.run({resultTypes: ['violations'], ...options})"


def check_readable(page: Page) -> None:
    """Axe in both schemes, and no sideways scrolling at either width."""
    page.set_viewport_size(SIZES["wide"])
    page.evaluate(AXE_SCRIPT)
    for scheme, rules in zip(SCHEMES, _RULES, strict=True):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour is on its way to another
        found = AxeResults(page.evaluate(_AXE, rules))
        assert found.violations_count == 0, f"{page.url} in {scheme}: {found.generate_report()}"
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)
        until(  # a chart follows the window a moment later
            page,
            lambda most=viewport["width"]: _width(page) <= most,
            lambda size=size: f"{page.url} is {_width(page)} px wide on a {size} screen",
        )


def _width(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))
