"""The check of readability finds what nobody could read, wherever it stands."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.e2e.readable import check_readable

pytestmark = pytest.mark.e2e

_ROWS = "".join(f"<tr><td>row {n}</td><td class=state>well</td></tr>" for n in range(30))
_PAGE = f"""<!doctype html><html lang=en><head><title>Rows</title><style>
:root {{ color-scheme: light dark; color: light-dark(#111, #eee); background: light-dark(#fff, #111); }}
STYLE</style></head><body><main><h1>Rows</h1>
<table><tr><th>Name</th><th>State</th></tr>{_ROWS}</table></main></body></html>"""


@pytest.mark.parametrize(
    ("style", "wrong"),
    [
        ("", ""),
        ("tr:nth-child(25) td { color: light-dark(#ccc, #eee); }", "light"),
        ("tr:nth-child(25) { background: light-dark(#fff, #ddd); }", "dark"),
        ("tr:nth-child(25) td { opacity: 0.3; }", "light"),
        (".state { color: #767676; }", "dark"),
    ],
    ids=["readable", "a pale cell", "a pale row in the dark", "a faint cell", "a column that is pale in the dark"],
)
def test_a_text_without_contrast_is_found_in_any_row_and_scheme(browser: Browser, style: str, wrong: str) -> None:
    page = browser.new_page()
    try:
        page.set_content(_PAGE.replace("STYLE", style))
        if wrong:
            with pytest.raises(AssertionError, match=rf"in {wrong}: [\s\S]*color-contrast"):
                check_readable(page)
        else:
            check_readable(page)
    finally:
        page.close()
