"""What every page must be: readable by everyone in light and dark, and not cut off at any width."""

from __future__ import annotations

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Page

from tests.e2e.conftest import SCHEMES, SIZES, until

#: Nodes that violate nothing are not described: on a long page their descriptions cost more than the rules.
#: Style sheets are not fetched again: no rule that is on reads their text.
_AXE = "() => axe.run({resultTypes: ['violations'], preload: false, rules: {'color-contrast': {enabled: false}}})"
#: The contrast of a text costs more than all other rules together, and in a table of a hundred rows it is computed for
#: each cell of a column: of texts with equal colours, sizes, elements and classes up to the page's root, the first one.
_CONTRAST = """() => {
  const kinds = new Map(), places = new Map();
  const placeOf = (element) => {
    if (!element) return "";
    if (!places.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [" ", element.tagName, element.getAttribute("class"), backgroundColor, backgroundImage, opacity];
      places.set(element, own.join() + placeOf(element.parentElement));
    }
    return places.get(element);
  };
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const kind = [color, fontSize, fontWeight].join() + placeOf(element);
    if (!kinds.has(kind) && element.checkVisibility()) kinds.set(kind, element);
  }
  const options = {resultTypes: ["violations"], preload: false, runOnly: ["color-contrast"]};
  return axe.run({include: [...kinds.values()]}, options);
}"""


#: Rows of tables with another number of cells than their table has columns.
_RAGGED = """() => [...document.querySelectorAll("table")].flatMap((table) => {
  const width = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
  const rows = [...table.rows].filter((row) => ![...row.cells].some((cell) => cell.rowSpan > 1));
  return rows.filter((row) => width(row) !== width(table.rows[0])).map((row) => row.innerText.slice(0, 200));
})"""


def check_readable(page: Page) -> None:
    """Axe in both schemes, which differ in colours alone, a cell for each column, and no sideways scrolling."""
    assert page.evaluate(_RAGGED) == [], page.url
    page.set_viewport_size(SIZES["wide"])
    page.evaluate(AXE_SCRIPT)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour is on its way to another
        for rules in (_AXE, _CONTRAST) if scheme == SCHEMES[0] else (_CONTRAST,):
            found = AxeResults(page.evaluate(rules))
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
