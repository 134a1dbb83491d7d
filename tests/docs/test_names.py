"""No two modules have one name, so that a name alone says where something is."""

from collections import defaultdict

from triage.places import ROOT

PACKAGES = ("diagnosis", "ingest", "triage")
#: an entity has the same name in each layer; a format reader is named after its format, a page's tags after the page
LAYERS = ("models", "selectors", "services", "views", "api", "charts", "templatetags", "commands", "readers")
#: names that a framework asks for, and the types of a package
CONVENTIONAL = ("__init__", "__main__", "urls", "apps", "tasks", "receivers", "base", "model")


def test_no_two_modules_have_one_name_outside_the_layers() -> None:
    found = defaultdict(list)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            own = path.parent.name not in (*LAYERS, "migrations")
            if own and path.stem not in CONVENTIONAL:
                found[path.stem].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
