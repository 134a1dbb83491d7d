"""Courses: the program or its configuration is wrong."""

from __future__ import annotations

from lab.exams.clusters.voices import NVIDIA, PATIENT, PYTHON, TORCH
from lab.exams.clusters.world import Entry, Fresh
from lab.exams.courses.world import Truth


def misspelt_option(w: Fresh) -> None:
    """An option that no parser knows: every rank prints the usage and ends."""
    for rank in w.ranks():
        w.raw(
            3 + w.rng.random() * 2,
            rank,
            "~usage: train.py [-h] [--micro-batch-size N] [--global-batch-size N] [--lr LR]\n"
            "~                [--use-flash-attn] [--recompute {{none,full,selective}}] [--save PATH]\n"
            "train.py: error: unrecognized arguments: --use-flash-atn --reccompute full",
            "root",
            "usage",
        )
    w.now = 6
    w.over(9, first=0)
    w.truth = Truth(
        "user",
        "bad_argument",
        "launch_failure",
        "launch",
        also_subcategories=("bad_config",),
        also_symptoms=("crash",),
    )


def extension_of_another_build(w: Fresh) -> None:
    """A compiled extension belongs to another version of the framework: no rank can import it."""
    w.start("launch")
    for rank in w.ranks():
        w.boom(
            w.now + 2 + w.rng.random() * 3,
            rank,
            "ImportError: /opt/venv/lib/python3.11/site-packages/fused_ops_cpp.cpython-311-x86_64-linux-gnu.so: "
            "undefined symbol: _ZN3c1021throwNullDataPtrErrorEv",
            where="load_kernels",
        )
    w.over(w.now + 9, first=0)
    w.truth = Truth(
        "user",
        "import_error",
        "launch_failure",
        "launch",
        also_symptoms=("crash",),
        also_stages=("model_build",),
        also_categories=("framework",),
    )


def stale_image(w: Fresh) -> None:
    """One machine runs an older image without a module; its ranks end at once, the others wait for them to join."""
    w.start("launch")
    at = w.now + 3
    for rank in w.of(w.victim):
        w.boom(at + w.rng.random(), rank, "ModuleNotFoundError: No module named 'curriculum_v4'", where="imports")
    for rank in w.ranks([w.victim]):
        w.boom(
            at + 600 + w.rng.random() * 2,
            rank,
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
            f"{w.world - w.per}/{w.world} clients joined.",
            "secondary",
            "store",
            "join",
        )
    w.over(at + 606)
    w.truth = Truth(
        "user",
        "import_error",
        "launch_failure",
        "launch",
        origin=(w.victim,),
        also_categories=("platform",),
        also_subcategories=("bad_config",),
        also_symptoms=("crash",),
        also_stages=("rendezvous", "model_build"),
    )


def tokens_outside_the_table(w: Fresh) -> None:
    """One rank's batch contains an id that the embedding does not have: asserts of the device, then an error."""
    w.start()
    w.train(37)
    at = w.now + 0.2 * w.step_s
    for block in w.rng.sample(range(900), 40):
        w.raw(
            at + w.rng.random() * 0.2,
            w.rank,
            f"../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [{block},0,0], thread: "
            f"[{w.rng.randrange(128)},0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
            "root",
            "assert",
        )
    w.boom(
        at + 0.4,
        w.rank,
        "RuntimeError: CUDA error: device-side assert triggered\n~CUDA kernel errors might be asynchronously reported "
        "at some other API call, so the stacktrace below might be incorrect.\n"
        "~For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        tid="triggered",
    )
    w.broken(at + 1.5, [w.victim])
    w.over(at + 11)
    w.truth = Truth(
        "user",
        "bad_data_assert",
        origin=(w.victim,),
        also_subcategories=("user_code_exception",),
        **w.at_last(),
    )


def evaluation_callback(w: Fresh) -> None:
    """The first rank's evaluation callback reads a missing key."""
    w.start()
    w.train(40, save_every=20)
    for rank in w.ranks():
        w.say(w.now + 1, rank, f"starting evaluation at step {w.n} on 4 validation sets")
    at = w.now + 25
    w.boom(at, 0, "KeyError: 'val/perplexity_code'", where="on_evaluation_end")
    w.broken(at + 1, [0])
    w.over(at + 9, first=0)
    w.truth = Truth(
        "user",
        "user_code_exception",
        "crash",
        "evaluation",
        origin=(0,),
        failed_n=w.n + 1,
        logged_n=w.told_n,
        also_stages=("training",),
    )


def segmentation_fault(w: Fresh) -> None:
    """A native program without time stamps: one rank has a segmentation fault, as Open MPI reports it."""
    w.start()
    w.train(45)
    at, head = w.now + 0.4 * w.step_s, "[{node}:{pid}] "
    rows = (
        "*** Process received signal ***",
        "Signal: Segmentation fault (11)",
        "~Signal code: Address not mapped (1)",
        "~Failing at address: 0x18",
        "~[ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f{hex}]",
        "~[ 1] ./train_gpt2cu(_Z22dataloader_next_batchP10DataLoader+0x1c4)[0x55{hex}]",
        "~[ 2] ./train_gpt2cu(main+0x2f1a)[0x55{hex}]",
        "~*** End of error message ***",
    )
    text = "\n".join("~" * row.startswith("~") + head + row.removeprefix("~") for row in rows)
    w.raw(at, w.rank, text, "root", "signal")
    w.broken(at + 1, [w.victim])
    w.over(at + 4)
    node = w.nodes[w.victim]
    w.launcher(
        at + 5,
        f"{'-' * 74}\nmpirun noticed that process rank {w.rank} with PID {w.pids[w.rank]} on node {node} exited on "
        f"signal 11 (Segmentation fault).\n{'-' * 74}",
        "secondary",
        "noticed",
    )
    w.truth = Truth(
        "user",
        "native_crash",
        origin=(w.victim,),
        also_categories=("framework", "hardware"),
        also_subcategories=("process_killed", "user_code_exception"),
        **w.at_last(),
    )


def memory_grows(w: Fresh) -> None:
    """Every machine's host memory grows with the iterations until one container reaches its limit."""
    w.start()
    for k in range(9):
        w.train(6)
        for node in range(len(w.nodes)):
            text = f"host memory of {{node}}: {312 + 158 * k + w.rng.random():.1f} of 1600.0 GiB"
            w.say(w.now + 0.1, node * w.per, text, "context", "rss")
    at = w.now + 0.8 * w.step_s
    w.kernel(
        at,
        w.victim,
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=999\n"
        "~CPU: 61 PID: {pid} Comm: python3 Tainted: P           OE     5.15.0-1063 #69-Ubuntu\n~Call Trace:\n"
        "~ dump_header+0x4a/0x240\n~ oom_kill_process.cold+0xb/0x10\n~ mem_cgroup_out_of_memory+0x148/0x160\n"
        "~memory: usage 1677721600kB, limit 1677721600kB, failcnt 4183\n"
        "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:391823312kB, anon-rss:208831220kB, "
        "file-rss:91244kB, shmem-rss:1024kB, UID:0 pgtables:411220kB oom_score_adj:999",
        "root",
        "oom",
        w.rank,
    )
    w.broken(at + 1.5, [w.victim])
    w.over(at + 10)
    w.truth = Truth(
        "user",
        "host_memory_leak",
        origin=(w.victim,),
        also_categories=("hardware",),
        also_subcategories=("host_oom", "process_killed"),
        **w.at_last(),
    )


def index_removed(w: Fresh) -> None:
    """The index of the training set is not at its configured path, on any rank."""
    w.start("model_build")
    for rank in w.ranks():
        w.boom(
            w.now + 3 + w.rng.random() * 2,
            rank,
            "FileNotFoundError: [Errno 2] No such file or directory: '/datasets/mix-2026q1/tokens/part-000.idx'",
            where="open_dataset",
        )
    w.over(w.now + 9, first=0)
    w.truth = Truth(
        "user",
        "dataset_missing",
        "launch_failure",
        "model_build",
        also_subcategories=("bad_config",),
        also_symptoms=("crash",),
        also_stages=("launch", "training"),
    )


def new_members(w: Fresh) -> None:
    """Machines join an elastic job again and again; the last restart finds its rendezvous closed."""
    w.start()
    w.train(18, save_every=9)
    for k in range(3):
        for node in range(len(w.nodes)):
            at = w.now + 3 + w.rng.random()
            text = f"[default] Detected {k + 1} new nodes from group_rank={node}; will restart worker group"
            agent = f"I{{mmdd}} {{hms}} {w.pids[node * w.per] - 11} torch/distributed/elastic/agent/server/api.py:935] "
            w.raw(at, node * w.per, agent + text, "root" if k == 2 else "", "joined" if k == 2 else "")
        if k == 2:
            break
        w.now += 40
        w.start()
        w.train(12, save_every=6)
    for node in range(len(w.nodes)):
        at = w.now + 45 + w.rng.random()
        w.boom(
            at,
            node * w.per,
            "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
            tid="closed",
            where="restart",
        )
    w.over(w.now + 60, first=0)
    w.truth = Truth(
        "framework",
        "elastic_restart",
        "crash",
        also_subcategories=("rendezvous_timeout",),
        also_stages=("rendezvous",),
        also_symptoms=("launch_failure",),
        **w.at_last(),
    )


def logs_of_one_machine(w: Fresh) -> None:
    """Only one machine's logs exist; its neighbours in the ring closed their connections. The cause is in the missing
    logs.
    """
    w.start()
    w.train(30)
    at = w.now + 0.5 * w.step_s
    here = (w.victim + len(w.nodes) // 2) % len(w.nodes)
    w.broken(at, [w.victim])
    w.lines = [x for x in w.lines if x.node == here]
    is_told = w.voice.is_every_rank or here == 0
    w.truth = Truth(
        "unknown",
        "unknown",
        failed_n=w.n + 1 if is_told else None,
        logged_n=w.told_n if is_told else None,
    )


PROGRAMMES: dict[str, Entry] = {
    "misspelt_option": (misspelt_option, 0, PYTHON),
    "extension_of_another_build": (extension_of_another_build, 0, PYTHON),
    "stale_image": (stale_image, 24, TORCH),
    "tokens_outside_the_table": (tokens_outside_the_table, 0, NVIDIA),
    "evaluation_callback": (evaluation_callback, 0, PYTHON),
    "segmentation_fault": (segmentation_fault, 0, ("llmc",)),
    "memory_grows": (memory_grows, 0, PYTHON),
    "index_removed": (index_removed, 512, PATIENT),
    "new_members": (new_members, 0, ("nanotron", "pulse")),
    "logs_of_one_machine": (logs_of_one_machine, 0, (*NVIDIA, "kontor")),
}
