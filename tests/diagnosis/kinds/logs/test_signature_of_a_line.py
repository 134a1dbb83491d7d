"""The command that names the rule of a line."""

from pathlib import Path

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures.__main__ import deciding_rule

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."


def test_a_line_is_answered_with_its_rule_role_category_file_and_line() -> None:
    *said, place = deciding_rule("For debugging consider passing CUDA_LAUNCH_BLOCKING=1").split("  ")
    assert said == ["noise.cuda_launch_blocking", "advice", "none"]
    assert place.startswith("noise.toml:")
    assert _at(place) == f'id = "{said[0]}"'
    assert deciding_rule("hello") == "no rule matches"


def test_a_code_is_answered_with_its_row_of_the_table_and_the_rule_that_reads_it() -> None:
    rule, role, category, row, reader = deciding_rule(XID).split("  ")
    assert (rule, role, category) == ("nvidia.xid.79", "root", "hardware.gpu.off_bus")
    assert _at(row).startswith("79,")
    assert row.startswith("xid.csv:")
    assert _at(reader) == 'id = "nvidia.xid"'


def _at(place: str) -> str:
    """The line of a file of rules at ``file:line``."""
    name, _, number = place.partition(":")
    return (Path(signatures.__file__).parent / name).read_text(encoding="utf-8").splitlines()[int(number) - 1]
