"""What every page must be: readable by everyone in light and dark, and not cut off at any width."""

from __future__ import annotations

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Page

from tests.e2e.conftest import SCHEMES, SIZES, until

#: Nodes that violate nothing are not described: on a long page their descriptions cost more than the rules.
#: Style sheets are not fetched again: no rule that is on reads their text.
#: Of the rules that axe leaves off unless asked for: a name that holds the words shown.
_AXE = """() => axe.run({resultTypes: ['violations'], preload: false, rules: {
  'color-contrast': {enabled: false},
  'label-content-name-mismatch': {enabled: true},
}})"""
#: What is clicked has 24 px for itself. Lines of a log are as close as in an editor: keys do the same.
_TARGETS = """() => axe.run({exclude: ['#lines', '.instant']},
  {resultTypes: ['violations'], preload: false, runOnly: ['target-size']})"""
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
#: how far what is shown may move while a page loads: Chromium's sum of shares of the window
MAX_SHIFT = 0.05
_SHIFT = """() => new Promise((told) => {
  let shift = 0;
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) shift += entry.value; })
    .observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => told(shift)));
})"""


def check_steady(page: Page) -> None:
    """What is shown hardly moves while a page loads; to be called before the window changes its size."""
    shift = page.evaluate(_SHIFT)
    assert shift < MAX_SHIFT, f"{page.url} moved by {shift:.3f} of the window while it was loaded"


def check_readable(page: Page) -> None:
    """Axe in both schemes, which differ in colours alone, a cell for each column, and no sideways scrolling."""
    assert page.evaluate(_RAGGED) == [], page.url
    page.set_viewport_size(SIZES["wide"])
    page.evaluate(AXE_SCRIPT)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour is on its way to another
        for rules in (_AXE, _TARGETS, _CONTRAST) if scheme == SCHEMES[0] else (_CONTRAST,):
            found = AxeResults(page.evaluate(rules))
            assert found.violations_count == 0, f"{page.url} in {scheme}: {found.generate_report()}"
    check_fits(page)


def check_fits(page: Page) -> None:
    """No sideways scrolling at any width."""
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)
        until(  # a chart follows the window a moment later
            page,
            lambda most=viewport["width"]: _width(page) <= most,
            lambda size=size: f"{page.url} is {_width(page)} px wide on a {size} screen",
        )


def _width(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))
