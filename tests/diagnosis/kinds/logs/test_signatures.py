"""Every built-in rule: checked, exemplified, and not hidden by an earlier one."""

import csv
from importlib import resources

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import match
from diagnosis.kinds.logs.meaning.signatures.load import AREAS
from diagnosis.kinds.logs.meaning.signatures.validate import validate
from diagnosis.model import Role

RULES = signatures.builtin()


@pytest.mark.parametrize("area", AREAS)
def test_a_rule_is_sound_and_tells_its_example_from_its_counter_example(area: str) -> None:
    problems = {rule.id: validate(rule) for rule in RULES if rule.area == area}
    assert problems
    assert {rule_id: found for rule_id, found in problems.items() if found} == {}


def test_no_earlier_rule_takes_the_examples_of_a_later_one() -> None:
    pairs = [(rule.id, text) for rule in RULES for text in rule.examples]
    found = signatures.load().match_texts(text for _, text in pairs)
    taken = [
        (own, other, text)
        for (own, text), other in zip(pairs, found, strict=True)
        if other != own and not (other or "").startswith(own + ".")
    ]
    assert taken == []


def test_lines_known_from_before_get_the_same_rules_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    search = signatures.SignatureSet._hits
    monkeypatch.setattr(
        signatures.SignatureSet, "_hits", lambda self, heads: searched.append(len(heads)) or search(self, heads)
    )
    rules = signatures.SignatureSet(RULES)
    examples = [text for rule in RULES for text in rule.examples]
    lines = [*examples[:200], "nothing that is known", "x" * 9000]
    first = rules.match_texts(lines)
    assert rules.match_texts([*reversed(lines), "one more"]) == [*reversed(first), None]
    assert searched[1:] == [2]  # the new line, and one that is too long to be kept
    assert first[-2:] == [None, None]


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("The server socket has failed to listen on any local network address. port: 29501, useIpv6: 0", " (29501)"),
        ("The server socket has failed to bind to [::]:29511 (errno: 98 - Address already in use).", " (29511)"),
        ("error while attempting to bind on address ('0.0.0.0', 29500): address already in use", " (29500)"),
        ("OSError: [Errno 98] Address already in use", ""),
    ],
)
def test_a_port_that_is_taken_is_named(line: str, port: str) -> None:
    assert signatures.load().title_of("rendezvous.port_in_use", line) == f"A port is taken{port}"


def test_ids_are_there_once() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))


def test_every_file_of_rules_has_its_place_in_the_order() -> None:
    folder = resources.files("diagnosis.kinds.logs.meaning.signatures")
    assert {entry.name for entry in folder.iterdir() if entry.name.endswith(".toml")} == {f"{a}.toml" for a in AREAS}


def test_all_xid_codes_of_the_catalogue_are_explained() -> None:
    text = resources.files("diagnosis.kinds.logs.meaning.signatures").joinpath("xid.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert [int(row["code"]) for row in rows] == list(range(1, 173))
    assert all(row["title"] and row["advice"].endswith(".") for row in rows)


def test_an_xid_line_is_known_by_its_code() -> None:
    lines = [f"[ 91.5] NVRM: Xid (PCI:0000:4e:00): {code}, pid=811, name=python3" for code in range(1, 173)]
    assert signatures.load().match_texts(lines) == [f"nvidia.xid.{code}" for code in range(1, 173)]


def test_every_sxid_code_is_explained_and_its_severity_decides() -> None:
    rules = signatures.load()
    codes = _codes_of("nvidia.sxid_fatal")
    assert len(codes) > 400
    line = "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): {}, {}, Link 12"
    assert rules.match_texts(line.format(code, "Fatal") for code in codes) == [
        f"nvidia.sxid_fatal.{code}" for code in codes
    ]
    mild = {rules.rule(found or "").role for found in rules.match_texts(line.format(c, "Non-fatal") for c in codes)}  # type: ignore[union-attr]
    assert mild == {Role.CASCADE}


def test_a_code_table_may_leave_role_and_category_to_its_rule() -> None:
    rule = signatures.load().rule("nvidia.sxid_fatal.20034")
    assert rule is not None
    assert (rule.role, rule.strength, rule.category) == (Role.ROOT, "decisive", "hardware.gpu.nvswitch")
    assert "link" in rule.title.lower()


@pytest.mark.parametrize(
    ("line", "rule_id", "role"),
    [
        ("EI0002: 2025-02-03-04:05:06 The wait execution of the Notify register times out.", "EI0002", Role.CASCADE),
        ("EI0005: The parameters of operator x are inconsistent between ranks", "EI0005", Role.ROOT),
        ("EI0013: An error CQE occurred during operator execution.", "EI0013", Role.ROOT),
        ("EJ0002: The network port is down.", "EJ0002", Role.ROOT),
        ("EK0201: Failed to allocate host memory for Profiling: 81.", "EK0201", Role.ROOT),
    ],
)
def test_codes_of_the_ascend_toolkit_are_distinguished(line: str, rule_id: str, role: Role) -> None:
    rules = signatures.load()
    rule = rules.rule(rules.match_texts([line])[0] or "")
    assert rule is not None
    assert (rule.id, rule.role) == (f"ascend.code.{rule_id}", role)


def _codes_of(rule_id: str) -> list[str]:
    return next(list(rule.codes) for rule in RULES if rule.id == rule_id)


def test_an_xid_that_no_catalogue_knows_is_still_an_xid() -> None:
    assert signatures.load().match_texts(["NVRM: Xid (PCI:0000:4e:00): 999, pid=1"]) == ["nvidia.xid"]


@pytest.mark.parametrize(
    "header",
    [
        "[E ProcessGroupNCCL.cpp:737] [Rank 1]",
        "[rank1]:[E416 20:40:12.986061777 ProcessGroupNCCL.cpp:621] [PG 1 Rank 0]",
        "[rank7]:[E416 20:40:12.986061777 ProcessGroupNCCL.cpp:621] [PG 0 (default_pg) Rank 7]",
        "[rank1]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 1]",
    ],
)
def test_each_header_of_the_collective_watchdog_is_known(header: str) -> None:
    work = "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    line = f"{header} Watchdog caught collective operation timeout: {work}"
    assert signatures.load().match_texts([line]) == ["nccl.watchdog.timeout"]


def test_an_error_quoted_by_a_watchdog_decides() -> None:
    error = "CUDA error: uncorrectable ECC error encountered"
    line = f"[Rank 1] Process group watchdog thread terminated with exception: {error}"
    assert signatures.load().match_texts([line]) == ["nvidia.ecc"]


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("[rank3]: For debugging consider passing CUDA_LAUNCH_BLOCKING=1", Role.ADVICE),
        ("NVRM: Xid (PCI:0000:4e:00): 45, pid=811, Ch 00000010", Role.CASCADE),
        ("Sending process 4411 closing signal SIGTERM", Role.TEARDOWN),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", Role.TEARDOWN),
        ("pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:00.0", Role.CONFIRMATION),
        ("[W socket.cpp:752] [c10d] The client socket has failed to connect to [trn-16]:29500", Role.BENIGN),
    ],
)
def test_traps_do_not_look_like_causes(line: str, role: Role) -> None:
    rules = signatures.load()
    rule = rules.rule(rules.match_texts([line])[0] or "")
    assert rule is not None
    assert rule.role is role


def uniques(*examples: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"masked": range(len(examples)), "text": ["<TEXT>"] * len(examples), "example": examples},
        schema_overrides={"masked": pl.UInt64},
    )


def test_a_table_of_messages_gets_one_row_for_each_that_is_known() -> None:
    found = signatures.load().match(uniques("nothing to see", "GPU 2 of trn-1: NVRM: Xid (PCI:0000:4e:00): 79, pid=1"))
    assert found.to_dicts() == [
        {
            "masked": 1,
            "signature": "nvidia.xid.79",
            "order": found["order"][0],
            "role": "root",
            "strength": "decisive",
            "category": "hardware.gpu.off_bus",
        }
    ]


def test_all_matching_rules_can_be_asked_for_in_their_order() -> None:
    found = signatures.load().match(uniques("RuntimeError: CUDA error: unspecified launch failure"), every=True)
    assert found["signature"][0] == "cuda.launch_failure"
    assert "code.exception" in found["signature"].to_list()
    assert found["order"].is_sorted()


def test_the_masked_text_is_tried_where_there_is_no_example() -> None:
    frame = pl.DataFrame(
        {"masked": [7], "text": ["CUDA out of memory. Tried to allocate <NUM>"]}, schema_overrides={"masked": pl.UInt64}
    )
    assert signatures.load().match(frame)["signature"].to_list() == ["cuda.oom"]


def test_the_names_of_masks_are_not_words_of_the_message() -> None:
    frame = uniques("mlx5_core 0000:1a:00.0 mlx5_2: Port: 1 Link DOWN").with_columns(
        text=pl.lit("mlx<NUM>_core <PCI> mlx<NUM>_<NUM>: Port: <NUM> Link DOWN")
    )
    assert signatures.load().match(frame)["signature"].to_list() == ["nic.link_down"]


def test_nothing_matches_nothing() -> None:
    assert signatures.load().match(uniques()).is_empty()
    assert signatures.load().match_texts([]) == []


def test_missing_examples_and_long_lines_do_no_harm() -> None:
    frame = uniques("x" * 5_000_000 + " CUDA out of memory", "").with_columns(text=pl.lit(None, dtype=pl.String))
    assert signatures.load().match(frame).is_empty()


def test_rules_read_less_of_long_messages_the_more_there_are() -> None:
    few = pl.Series(["a" * 5_000] * 10)
    assert set(match.heads_of(few).str.len_bytes()) == {match.MATCHED_BYTES}
    many = pl.Series([f"{n} " + "out of memory " * 300 for n in range(3_000)] + ["CUDA error: out of memory"])
    heads = match.heads_of(many)
    assert heads.str.len_bytes().max() == 1024
    assert heads[-1] == many[-1]
