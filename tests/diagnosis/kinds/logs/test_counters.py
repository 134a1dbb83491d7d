"""Progress in a house style or another language: an even growth next to a measurement, under any names."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from diagnosis import ParseHints, parse
from diagnosis.kinds.logs.pace import counters, progress
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows import events


def found(lines: Iterable[str], work: Path) -> progress.Progress:
    data = "".join(f"{line}\n" for line in lines).encode()
    parsed = parse(io.BytesIO(data), "n1.log", ParseHints(), work)
    return progress.find_progress(events.build([parsed]), lambda path, offset, length: data[offset : offset + length])


def at(second: float) -> str:
    return f"2026-03-01 08:{int(second) // 60:02d}:{second % 60:06.3f}"


STYLES: dict[str, Callable[[int], str]] = {
    "german": lambda n: f'zeit={at(8.1 * n)} stufe=INFO rang=0 text="Schritt {n} fertig, Verlust {3 - n / 99:.4f}"',
    "chinese": lambda n: f"[{at(8.1 * n)}] [信息] 第 {n} 步完成，用时 8.{n % 10} 秒，损失 {3 - n / 99:.4f}",
    "chinese without blanks": lambda n: f"[{at(8.1 * n)}] 进程0 第{n}步 损失{3 - n / 99:.4f} 用时8.{n % 10}秒",
    "dotted": lambda n: f'zeit=01.03.2026-08:{n:02d}:18,362 rang=0 text="Schritt {n} fertig, Verlust {3 - n / 99:.4f}"',
    "house": lambda n: f"{at(8.1 * n)};n1;>>{n} of 90000;{3 - n / 99:.3f};tok 81204",
    "tens": lambda n: f"{at(8.1 * n)} | tick {10 * n} | xent {3 - n / 99:.3f}",
    "quoted": lambda n: f'{at(8.1 * n)} | train_inner | {{"epoch": 1, "loss": "2.{n:02d}", "num_updates": "{n}"}}',
}


@pytest.mark.parametrize("style", STYLES)
def test_a_counter_is_found_whatever_it_is_called(style: str, tmp_path: Path) -> None:
    told = found((STYLES[style](n) for n in range(31, 51)), tmp_path)
    assert (told.kind, told.last) == ("iteration", 500 if style == "tens" else 50)
    assert told.points.height == 20


NO_COUNTERS: dict[str, Callable[[int], str]] = {
    "a clock": lambda n: f"{at(10 * n)} alive for {10 * n} s at load 0.{n}",
    "a clock in milliseconds": lambda n: f"{at(10 * n)} alive for {10_000 * n} ms at load 0.{n}",
    "no measurement": lambda n: f"{at(8.1 * n)} poll {n} of socket 7",
    "no even growth": lambda n: f"{at(8.1 * n)} held {n * n} of memory, 0.{n} share",
    "a fall": lambda n: f"{at(8.1 * n)} queue {(7 * n) % 5} deep, 0.{n} share",
    "names of modules": lambda n: f"{at(8.1 * n)} norm res{n}.0.shortcut of version 3",
    "checkpoints": lambda n: f"{at(8.1 * n)} loaded part {n} in 0.{n}",
}


@pytest.mark.parametrize("name", NO_COUNTERS)
def test_what_does_not_count_is_no_progress(name: str, tmp_path: Path) -> None:
    assert found((NO_COUNTERS[name](n) for n in range(1, 30)), tmp_path).kind == "none"


def test_a_known_word_goes_before_an_unknown_one(tmp_path: Path) -> None:
    lines = [f"{at(n)} step {n} loss 0.{n}\n{at(n)} kiste {100 + n} gewicht 0.{n}" for n in range(1, 20)]
    assert found(lines, tmp_path).last == 19


def test_a_restart_does_not_hide_a_counter(tmp_path: Path) -> None:
    told = found((STYLES["german"](n) for n in [*range(20, 40), *range(30, 60)]), tmp_path)
    assert told.last == 59


def test_a_few_lines_are_not_enough_to_tell(tmp_path: Path) -> None:
    assert found((STYLES["house"](n) for n in range(3)), tmp_path).kind == "none"


def test_dates_and_times_of_day_are_one_number_each_and_count_nothing() -> None:
    line = "01.03.2026 10:10:18,362 2026-03-01T08:00:05Z it 1,024 of 62.0it [12/75] 1.5e-05 b7"
    numbers = [one[1] for one in counters._numbers(line)]
    assert numbers == ["01.03.2026", "10:10:18,362", "2026-03-01", "00:05", "1,024", "62.0", "12", "75", "1.5e-05", "7"]
    assert [counters._integer(one) for one in numbers] == [None, None, None, None, 1024, 62, 12, 75, None, 7]


def loss(n: int) -> str:
    return f"{9.5 - n / 99:.4f}"


def bar(n: int, total: int) -> str:
    return (
        f"{n * 100 // total}%|{'█' * (n * 10 // total):10}| {n}/{total} [{n // 60:02d}:{n % 60:02d}<00:10,  1.00s/it]"
    )


#: Lines of one step each, in the manner of other programs, and the last count of forty.
PROGRAMS: dict[str, tuple[Callable[[int], str], int]] = {
    "a number and a colon, as a task's label": (lambda n: f"{n}: loss={loss(n)} dt=5.0{n % 7}", 40),
    "a total without a name": (lambda n: f"{n}/75  loss {loss(n)}  5.0{n % 7}s", 40),
    "brackets, evaluated beside it": (lambda n: f"[{n}]\ttrain-rmse:{loss(n)}\teval-rmse:{loss(n)}", 40),
    "steps and their share": (lambda n: f"Train: 0 [{n * 50:5d}/5000 ({n:3d}%)]  Loss: {loss(n)}  0.1{n % 7}s", 2000),
    "tokens": (lambda n: f"tokens {n * 4_194_304:,} / 503,316,480, loss {loss(n)}", 167_772_160),
    "a rate of floats": (lambda n: f"Progress on:train {n}.0it/100.0it rate:1.0s/it postfix:loss={loss(n)}", 40),
    "a bar of the first characters": (
        lambda n: f"{n:3d}/100 [{'=' * (n // 5)}>{'.' * (29 - n // 5)}] - ETA: 0:10 - loss: {loss(n)}",
        40,
    ),
    "a bar of each epoch": (lambda n: f"  {n}/60   4.2{n % 7}G   {loss(n)}   640: {bar(40, 40)}", 40),
    "a number behind a letter": (lambda n: f"b{n:05d} seen={n * 0.0042:.4f}B loss={loss(n)} 31{n % 7}0 tok/s", 40),
    "a row of a table": (lambda n: f"|    iterations      | {n}          |", 40),
    "a bar": (lambda n: f"Training: {bar(n, 40)}", 40),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_counter_of_another_program_is_found_by_its_structure(program: str, tmp_path: Path) -> None:
    line, last = PROGRAMS[program]
    told = found((line(n) for n in range(1, 41)), tmp_path)
    assert (told.last, told.points.height) == (last, 40)


def test_a_counter_of_a_part_gives_way_to_the_one_that_covers_the_run(tmp_path: Path) -> None:
    part = [f"{at(n)} probe step {n} loss {loss(n)}" for n in range(1, 10)]
    run = [f"{at(10 + n)} train {n * 10}/900 xent {loss(n)}" for n in range(1, 60)]
    assert found([*part, *run], tmp_path).last == 590


def test_bars_of_another_total_count_something_else(tmp_path: Path) -> None:
    evaluated = [bar(k, 4) for k in range(1, 5)]
    lines = [line for n in range(1, 41) for line in (bar(n, 50), *(evaluated if n % 5 == 0 else []))]
    told = found(lines, tmp_path)
    assert (told.last, told.points.height) == (40, 40)
    evaluation = [bar(k, 12) for k in range(1, 13)]
    steps = [bar(n, 99) for n in range(1, 91)]
    long = [*steps[:60], *evaluation, *steps[60:]]
    told = found(long, tmp_path / "one evaluation")
    assert (told.last, told.points.height) == (90, 90)


def test_a_counter_that_is_called_a_time_is_no_duration(tmp_path: Path) -> None:
    lines = [f"[batch={n}/80]:\n\t Train time/batch: {n - 1}\n\t Train loss: {loss(n)}" for n in range(1, 41)]
    assert found(lines, tmp_path).points["seconds"].drop_nulls().is_empty()


@pytest.mark.parametrize("cuts", [1, 3])
def test_the_last_progress_of_all_machines_counts_however_their_lines_are_cut(tmp_path: Path, cuts: int) -> None:
    """More machines than are read print more lines than the one that prints last."""
    data: dict[str, bytes] = {}
    for node in range(progress.LIMITS.machines + 3):
        steps = range(40) if node else range(30, 52)
        lines = [f"2026-03-01 08:00:{step:02d} iteration {step} loss 2.5\n" for step in steps]
        for cut in range(cuts):
            data[f"gpu-{node:04d}/rank-{cut}.log"] = "".join(lines[cut::cuts]).encode()
    parsed = [parse(io.BytesIO(text), path, ParseHints(), tmp_path / path) for path, text in data.items()]

    told = progress.find_progress(
        events.build(parsed), lambda path, offset, length: data[path][offset : offset + length]
    )

    assert told.last == 51
    assert sorted(set(told.points["n"])) == [*range(40), 51]


def test_a_usage_text_with_a_printed_list_takes_no_time(tmp_path: Path) -> None:
    choices = ",".join(map(str, range(1, 41)))
    lines = [f"{at(n)} usage: train.py [--layers {{{choices}}}] [--lr 0.{n}]" for n in range(1, 30)]
    assert found(lines, tmp_path).kind == "none"  # it backtracked for longer than anybody lives


def test_numbers_joined_by_commas_count_each_for_itself(tmp_path: Path) -> None:
    assert found([f"{at(n)} kiste:{n},{3 - n / 99:.4f},7" for n in range(31, 51)], tmp_path).last == 50


def test_a_file_is_read_once_for_all_its_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{at(n)} kiste {n} gewicht 0.{n}\n{at(n)} regal {3 * n} breit 1.{n}" for n in range(1, 30)]
    data = "".join(f"{line}\n" for line in rows).encode()
    table = events.build([parse(io.BytesIO(data), "n1.log", ParseHints(), tmp_path)])
    asked: list[Any] = []
    slabs = events.LogTable.slabs

    def counted(self: events.LogTable, *args: Any, **named: Any) -> Any:
        asked.append(named["files"])
        return slabs(self, *args, **named)

    monkeypatch.setattr(events.LogTable, "slabs", counted)
    read: list[int] = []

    def texts(wanted: pl.DataFrame) -> list[str]:
        read.append(wanted.height)
        return raw_lines.read_lines(wanted, table.files, lambda path, offset, length: data[offset : offset + length])

    assert len(counters.find_counters(table, texts, "x^")[0]) == 2
    assert (asked, read) == ([[0]], [29, 29])
