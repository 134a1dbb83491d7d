"""Every format of stack dump, with the traps of each, becomes the same dumps."""

from __future__ import annotations

import json

import pytest

from diagnosis.kinds.stacks import parse_stack, sniff  # noqa: F401
from diagnosis.kinds.stacks.ranks.dumped_processes import AGENT, LOADER, TRAINER, role_of
from diagnosis.kinds.stacks.read.stack_frames import unpack
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import parse

PYSPY = """Process 4784: /usr/bin/python3 -u train.py --local-rank=3
Python v3.11.7 (/usr/bin/python3.11)

Thread 4784 (idle): "MainThread"
    Condition.wait (threading.py:327)
    record.<locals>.wrapper (torch/distributed/elastic/multiprocessing/errors/__init__.py:367)
    <module> (train.py:16)
Thread 4826 (active+gil): "pin_memory"
    Queue.get (queue.py:171)
    _bootstrap (threading.py:1002)
"""


def read(text, path="stacks/n1/rank-3.txt"):
    parsed = parse(text, path)
    return unpack(parsed.facts), parsed


def names(dump):
    return [f.name for f in dump.main().frames]


def test_pyspy_text_gives_threads_innermost_first_with_command_and_states():
    (dump,), parsed = read(PYSPY)
    assert (dump.pid, dump.command) == (4784, "/usr/bin/python3 -u train.py --local-rank=3")
    assert names(dump) == ["wait", "wrapper", "<module>"]
    assert [(t.name, t.state) for t in dump.threads] == [("MainThread", "idle"), ("pin_memory", "active+gil")]
    assert parsed.facts["format"] == "py-spy"
    assert parsed.lines == 10


def test_locals_are_left_out_for_they_differ_between_ranks():
    with_locals = PYSPY.replace(
        "327)\n", '327)\n        Arguments:\n            self: <Condition at 0x7f33>\n            step: "a\\nb"\n'
    )
    assert names(read(with_locals)[0][0]) == names(read(PYSPY)[0][0])


def test_native_frames_are_kept_for_telling_but_not_compared():
    from diagnosis.kinds.stacks.ranks.cluster import key_of

    native = PYSPY.replace(
        "    Condition.wait",
        "    0x7f334b44524a (libc.so.6)\n    c10d::ProcessGroupNCCL::WorkNCCL::wait (libtorch_cuda.so)\n    "
        "Condition.wait",
    )
    dump = read(native)[0][0]
    assert len(dump.main().frames) == 5
    assert key_of(dump.main().frames)[-1] == "<module> (train.py)"
    assert not any("libc" in label for label in key_of(dump.main().frames))


def test_subprocesses_are_processes_of_their_own_with_their_parent():
    child = (
        PYSPY.replace("4784", "4900")
        .replace("Python v", "Parent Process 4784: python train.py\nPython v")
        .replace("    Queue.get (queue.py:171)", "    _worker_loop (torch/utils/data/_utils/worker.py:310)")
    )
    dumps, parsed = read(PYSPY + "\n" + "-" * 80 + "\n" + child)
    assert [(d.pid, d.parent) for d in dumps] == [(4784, None), (4900, 4784)]
    assert [role_of(d, "x") for d in dumps] == [TRAINER, LOADER]
    assert parsed.notes == ("Read as stacks of 2 processes.",)


def test_class_names_that_only_new_pythons_print_make_no_difference():
    from diagnosis.kinds.stacks.ranks.cluster import key_of

    old = PYSPY.replace("Condition.wait", "wait").replace("record.<locals>.wrapper", "wrapper")
    assert key_of(read(old)[0][0].main().frames) == key_of(read(PYSPY)[0][0].main().frames)


def test_colours_carriage_returns_and_utf16_are_read_as_the_text_they_are():
    coloured = PYSPY.replace("Thread 4784", "\x1b[1;32mThread 4784\x1b[0m").replace("\n", "\r\n")
    assert names(read(coloured)[0][0]) == names(read(PYSPY)[0][0])
    parsed = parse(PYSPY.encode("utf-16"), "stacks/rank-3.txt")
    assert names(unpack(parsed.facts)[0]) == names(read(PYSPY)[0][0])


def test_pyspy_json_is_the_same_dump_as_its_text():
    frames = [
        {"name": n, "filename": f"/usr/lib/{f}", "short_filename": f, "line": 1, "locals": None, "module": None}
        for n, f in [("wait", "threading.py"), ("wrapper", "__init__.py"), ("<module>", "train.py")]
    ]
    rows = [
        {
            "pid": 4784,
            "thread_id": 9,
            "os_thread_id": 4826,
            "thread_name": "pin_memory",
            "active": False,
            "owns_gil": False,
            "frames": [],
        },
        {
            "pid": 4784,
            "thread_id": 1,
            "os_thread_id": 4784,
            "thread_name": "MainThread",
            "active": True,
            "owns_gil": True,
            "frames": frames,
        },
    ]
    (dump,), parsed = read(json.dumps(rows), "rank-3.json")
    assert parsed.facts["format"] == "py-spy json"
    assert names(dump) == names(read(PYSPY)[0][0])
    assert dump.threads[0].state == "active+gil"


def test_faulthandler_finds_the_main_thread_by_where_it_began():
    text = (
        'Thread 0x00007f334ae5b6c0 (most recent call first):\n  File "/usr/lib/threading.py", line 327 in wait\n'
        '  File "/usr/lib/threading.py", line 1002 in _bootstrap\n'
        "\n"
        "Current thread 0x00007f334bbc1b80 (most recent call first):\n"
        '  File "/srv/hang.py", line 3 in all_reduce\n  File "/srv/hang.py", line 16 in <module>\n'
    )
    (dump,), parsed = read(text)
    assert names(dump) == ["all_reduce", "<module>"]
    assert parsed.facts["format"] == "faulthandler"


def test_a_fatal_error_and_a_timeout_head_their_faulthandler_dump():
    body = (
        "Thread 0x00007f01 (most recent call first):\n"
        '  File "/srv/a.py", line 3 in f\n'
        '  File "/srv/a.py", line 9 in <module>\n'
    )
    dumps, _ = read(f"Fatal Python error: Segmentation fault\n\n{body}\nTimeout (0:10:00)!\n{body}")
    assert [d.error for d in dumps] == ["Segmentation fault", ""]
    assert all(names(d) == ["f", "<module>"] for d in dumps)


def test_pystack_prints_the_innermost_call_last_and_is_turned_round():
    text = (
        "Traceback for thread 4784 (python3) [Has the GIL] (most recent call last):\n"
        '    (C) File "Python/x.c", line 9, in pymain_run_python (/usr/lib/libpython3.11.so.1.0)\n'
        '    (Python) File "/srv/hang.py", line 16, in <module>\n        main()\n'
        '    (Python) File "/srv/hang.py", line 3, in all_reduce\n        time.sleep(3600)\n'
    )
    (dump,), _parsed = read(text)
    assert names(dump) == ["all_reduce", "<module>", "pymain_run_python"]
    assert dump.threads[0].state == "active+gil"
    assert dump.main().frames[-1].is_native


def test_gdb_counts_threads_down_and_thread_one_is_the_process():
    text = (
        "[New LWP 4826]\n[Thread debugging using libthread_db enabled]\n"
        "0x00007f334b4ed545 in __GI___clock_nanosleep (clock_id=1) at ../sysdeps/nanosleep.c:48\n48\t../x.c: No "
        "such file or directory.\n\n"
        'Thread 2 (Thread 0x7f334ae5b6c0 (LWP 4826) "pt_main_thread"):\n'
        "#0  0x00007f33 in futex_wait (a=1, b=0x0) at ./nptl/futex.c:57\n"
        'Thread 1 (Thread 0x7f334bbc1b80 (LWP 4784) "python3"):\n'
        "#0  0x0000 in poll () from /lib/x86_64-linux-gnu/libc.so.6\n"
        "#1  0x0001 in ncclAllReduce (x=<optimized out>) from /opt/libnccl.so.2\n#2  main (argc=2) at ./main.c:5\n"
    )
    (dump,), _ = read(text)
    assert dump.pid == 4784
    assert names(dump) == ["poll", "ncclAllReduce", "main"]
    assert [f.base for f in dump.main().frames] == ["libc.so.6", "libnccl.so.2", "main.c"]


def test_gdb_stacks_of_the_same_wait_are_equal_though_caught_at_another_leaf():
    from diagnosis.kinds.stacks.ranks.cluster import key_of
    from diagnosis.kinds.stacks.ranks.waits import COMM, activity
    from diagnosis.kinds.stacks.read.stack_frames import Frame

    def stack(*leaf):
        return (
            *leaf,
            Frame("pncclAllReduce", "libnccl.so.2"),
            Frame("c10d::ProcessGroupNCCL::allreduce(x)", "libtorch_cuda.so"),
            Frame("main", "main.c"),
        )

    a, b = (
        stack(Frame("sched_yield", "libc.so.6")),
        stack(Frame("??", "libcuda.so.1"), Frame("cuEventQuery", "libcuda.so.1")),
    )
    assert key_of(a) == key_of(b)
    assert activity(a).kind == activity(b).kind == COMM


@pytest.mark.parametrize("tool", ["pdsh", "srun --label"])
def test_interleaved_lines_of_a_prefixed_bundle_are_put_apart(tool):
    labels = ["gpu-001", "gpu-002"] if tool == "pdsh" else ["0", "1"]
    other = PYSPY.replace("4784", "5000").replace("Condition.wait (threading.py:327)", "read (socket.py:9)")
    lines = [
        x
        for pair in zip(PYSPY.splitlines(), other.splitlines(), strict=True)
        for x in (f"{labels[0]}: {pair[0]}", f"{labels[1]}: {pair[1]}")
    ]
    dumps, _parsed = read("\n".join(lines) + "\n", "all.txt")
    assert [(d.label, d.pid, names(d)[0]) for d in dumps] == [(labels[0], 4784, "wait"), (labels[1], 5000, "read")]
    assert sniff("\n".join(lines).encode(), "all.txt") == "py-spy"


def test_headings_between_dumps_give_rank_and_host():
    text = (
        "==> dumps/gpu-7/rank_12.txt <==\n"
        f"{PYSPY}\n"
        "==> dumps/gpu-8/rank_13.txt <==\n"
        f"{PYSPY}\n"
        "### host: gpu-9 rank: 14 ###\n"
        f"{PYSPY}"
    )
    dumps, _ = read(text, "bundle.txt")
    assert [d.header for d in dumps] == [
        {"path": "dumps/gpu-7/rank_12.txt"},
        {"path": "dumps/gpu-8/rank_13.txt"},
        {"rank": "14", "node": "gpu-9"},
    ]


def test_a_dump_that_failed_is_kept_in_its_place():
    dumps, _ = read(
        f"{PYSPY}\nError: Failed to suspend process\nReason: EPERM: Operation not permitted\n\n{PYSPY}", "trace-n1.out"
    )
    assert [d.status for d in dumps] == ["ok", "failed", "ok"]
    assert "EPERM" in dumps[1].error


def test_the_launchers_agent_is_recognised_by_its_command_and_by_its_frames():
    by_command = read(PYSPY.replace("-u train.py", "-m torch.distributed.run --nnodes=4 train.py"))[0][0]
    by_frames = read(
        PYSPY.replace(
            "Condition.wait (threading.py:327)",
            "SimpleElasticAgent._invoke_run (torch/distributed/elastic/agent/server/api.py:923)",
        )
    )[0][0]
    assert role_of(by_command, "x") == role_of(by_frames, "x") == AGENT


def test_the_backward_thread_continues_the_main_thread():
    text = PYSPY.replace(
        "    Condition.wait (threading.py:327)",
        "    _engine_run_backward (torch/autograd/graph.py:825)\n    backward (torch/_tensor.py:581)",
    )
    text += (
        'Thread 4999 (active): "Dummy-7"\n'
        "    all_reduce (torch/distributed/distributed_c10d.py:9)\n"
        "    backward (megatron/core/tensor_parallel/mappings.py:55)\n"
        "    apply (torch/autograd/function.py:301)\n"
    )
    dump = read(text)[0][0]
    assert [f.name for f in dump.working()][:2] == ["all_reduce", "backward"]


@pytest.mark.parametrize(
    ("head", "path"),
    [
        (
            b"2026-01-02 03:04:05 INFO starting\n2026-01-02 03:04:06 INFO iteration 1 loss 2.0\n" * 3 + PYSPY.encode(),
            "train.log",
        ),
        (b"hello\n", "rank-3.txt"),
        (b'{"a": 1}', "x.json"),
        (b"", "train.log"),
        (b"\x7fELF\x02\x01", "rank-1.bin"),
        (b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError\n', "stderr.log"),
    ],
)
def test_what_is_no_stack_is_left_to_others(head, path):
    assert sniff(head, path) is None


def test_an_empty_file_named_after_a_rank_among_stacks_is_evidence():
    assert sniff(b"", "job/stacks/n1/rank-00012.txt") == "empty"
    dumps, parsed = read("", "job/stacks/n1/rank-00012.txt")
    assert dumps[0].status == "empty"
    assert parsed.skipped is None


def test_a_call_by_the_profiling_name_of_mpi_is_a_wait_for_peers() -> None:
    text = "Thread 3 (Thread 0x7f11 (LWP 88)):\n#0  0x00007f10 in progress_engine () from /opt/pal.so\n"
    text += "#1  0x00007f12 in {call} () from /opt/libmp.so\n"
    text += "#2  0x00007f14 in run_in_background (s=...) at ops.cc:9\n"
    files = [parse(text.format(call=call), "a.txt") for call in ("PMPI_Bcast", "RUMPI_Bcast")]
    found = [stacks_json([file]) for file in files]
    assert [one["common_wait"] for one in found] == ["in PMPI_Bcast", ""]
