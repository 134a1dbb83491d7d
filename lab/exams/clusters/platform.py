"""Courses: schedulers, registries and stores end a job or prevent its start."""

from __future__ import annotations

from datetime import UTC, datetime

from lab.exams.clusters.voices import PATIENT, PYTHON
from lab.exams.clusters.world import Entry, Fresh
from lab.exams.courses.world import Truth

SLURM = ("metaseq", "olmo", "nanotron")
KUBERNETES = ("pulse", "xingyun", "levanter")


def _moment(w: Fresh, at: float) -> str:
    return f"{datetime.fromtimestamp(w.t0 + at + w.zone * 3600, UTC):%Y-%m-%dT%H:%M:%S}"


def no_such_image(w: Fresh) -> None:
    """The tag of the image is not in the registry; only the cluster's events are left of the job."""
    image = '"registry.mlplatform.internal/llm/trainer:v2.7.1-rc3"'
    for node in range(len(w.nodes)):
        pod, at = w.pod(node), w.rng.random() * 2
        w.event(at, "Normal", "Scheduled", pod, f"Successfully assigned ml/{pod[4:]} to {w.nodes[node]}")
        for k in range(3):
            again = at + 2 + (20 << k) * (k > 0)
            w.event(again, "Normal", "Pulling", pod, f"Pulling image {image}")
            w.event(
                again + 1,
                "Warning",
                "Failed",
                pod,
                f"Failed to pull image {image}: rpc error: code = NotFound desc = failed to pull and unpack image "
                f"{image}: failed to resolve reference: not found",
                "root",
                "pull",
            )
            w.event(again + 1.1, "Warning", "Failed", pod, "Error: ErrImagePull", "root", "err")
            w.event(again + 9, "Normal", "BackOff", pod, f"Back-off pulling image {image}", "secondary", "backoff")
            w.event(again + 9.1, "Warning", "Failed", pod, "Error: ImagePullBackOff", "secondary", "backoff2")
    w.truth = Truth(
        "platform",
        "image_pull",
        "launch_failure",
        "launch",
        also_categories=("user",),
        also_subcategories=("bad_config",),
    )


def one_device_short(w: Fresh) -> None:
    """One machine offers one device less than its pod requested; the other ranks wait for that pod."""
    w.start("launch", [w.victim])
    resource = "huawei.com/Ascend910" if w.voice.vendor == "ascend" else "nvidia.com/gpu"
    at, pod = w.now - 3, w.pod(w.victim)
    w.event(at - 5, "Normal", "Scheduled", pod, f"assigned to {w.nodes[w.victim]}")
    w.event(
        at,
        "Warning",
        "UnexpectedAdmissionError",
        pod,
        f"Allocate failed due to requested number of devices unavailable for {resource}. Requested: 8, Available: 7, "
        "which is unexpected",
        "root",
        "admission",
    )
    for rank in w.ranks([w.victim]):
        w.boom(
            at + 900 + w.rng.random() * 2,
            rank,
            "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. "
            f"{w.world - w.per}/{w.world} clients joined.",
            "secondary",
            "store",
            "join",
        )
    w.over(at + 910, first=0)
    w.truth = Truth(
        "platform",
        "device_alloc",
        "launch_failure",
        "launch",
        faulty=(w.victim,),
        also_categories=("hardware",),
        also_subcategories=("gpu_off_bus", "scheduler"),
        also_stages=("rendezvous",),
    )


def name_node_in_safe_mode(w: Fresh) -> None:
    """The file system that holds the checkpoint refuses all reads: every rank fails while it loads."""
    w.start("model_build")
    java = "~\tat org.apache.hadoop.hdfs.server.namenode."
    for rank in w.ranks():
        at = w.now + 3 + w.rng.random() * 4
        w.raw(
            at,
            rank,
            "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs.server.namenode.SafeModeException): Cannot "
            "open /ckpt/run-{job}/shard-{rank}: Name node is in safe mode.\n"
            f"{java}FSNamesystem.newSafemodeException(FSNamesystem.java:1580)\n"
            f"{java}FSNamesystem.getBlockLocations(FSNamesystem.java:2174)\n"
            f"{java}NameNodeRpcServer.getBlockLocations(NameNodeRpcServer.java:769)\n"
            "~\tat java.base/java.lang.Thread.run(Thread.java:829)",
            "root",
            "safemode",
        )
        w.boom(
            at + 0.3,
            rank,
            "OSError: [Errno 255] Unknown error 255: opening 'hdfs://lake/ckpt/run-{job}/shard-{rank}' failed",
            tid="open",
            where="load_checkpoint",
        )
    w.over(w.now + 12, first=0)
    w.truth = Truth(
        "platform",
        "storage_outage",
        "launch_failure",
        "checkpoint_load",
        also_symptoms=("crash",),
        also_subcategories=("storage_io",),
    )


def file_server_away(w: Fresh) -> None:
    """The file server does not answer any machine while all write a checkpoint."""
    w.start()
    w.train(30, save_every=15)
    w.train(9)
    at = w.now
    w.say(at + 0.1, w.reporter, w.voice.save[0].replace("{n}", str(w.n)))
    for node in range(len(w.nodes)):
        for k in range(3):
            text = "nfs: server 10.9.0.4 not responding, still trying"
            w.kernel(at + 63 + 180 * k + w.rng.random() * 4, node, text, "root", "nfs")
        w.kernel(
            at + 246 + w.rng.random(),
            node,
            "INFO: task python3:{pid} blocked for more than 122 seconds.\n~      Tainted: P           OE\n"
            '~"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n~Call Trace:\n'
            "~ rpc_wait_bit_killable+0x24/0xb0 [sunrpc]\n~ nfs_file_fsync+0xc1/0x1b0 [nfs]",
            "root",
            "blocked",
        )
    w.over(w.wait_out(at) + 4, first=0)
    w.truth = Truth(
        "platform",
        "storage_outage",
        "hang",
        "checkpoint_save",
        failed_n=w.n,
        logged_n=w.told_n,
        also_symptoms=("crash",),
        also_subcategories=("storage_io", "disk_io"),
        also_categories=("hardware",),
        also_stages=("training",),
    )


def controller_not_reachable(w: Fresh) -> None:
    """Slurm's controller does not answer when the step is created; no process starts."""
    w.launcher(5, "srun: Job step creation temporarily disabled, retrying (Socket timed out on send/recv operation)")
    w.launcher(
        306,
        "srun: error: Unable to create step for job {job}: Unable to contact slurm controller (connect failure)",
        "root",
        "controller",
    )
    w.launcher(307, "run_train.sh: srun left with status 1 after 302 s", "secondary", "status")
    w.truth = Truth("platform", "scheduler", "launch_failure", "launch")


def preempted_by_slurm(w: Fresh) -> None:
    """A job of a higher tier takes the machines."""
    w.start()
    w.train(34, save_every=17)
    at, first = w.now + 1, w.nodes[0]
    for k, what in enumerate((f"JOB {w.job}", f"STEP {w.job}.0")):
        text = f"slurmstepd: error: *** {what} ON {first} CANCELLED AT {_moment(w, at)} DUE TO PREEMPTION ***"
        w.launcher(at + 0.1 * k, text, "root", f"preempted{k}")
    w.over(at + 3, "srun: Job step aborted: Waiting up to 92 seconds for job step to finish.")
    w.truth = Truth("platform", "preemption", also_symptoms=("killed", "preempted"), **w.at_last())


def spot_machine_called_back(w: Fresh) -> None:
    """The cloud reclaims one spot machine with two minutes' notice; the job cannot continue without it."""
    w.start()
    w.train(110, save_every=22)
    at, node = w.now + 0.5 * w.step_s, w.nodes[w.victim]
    w.event(
        at - 118,
        "Warning",
        "SpotInterrupted",
        f"node/{node}",
        f"Spot interruption warning was triggered for {node}, the instance terminates in 120 s",
        "root",
        "spot",
    )
    w.event(at - 117, "Normal", "Draining", f"node/{node}", f"cordoning and draining {node}", "secondary", "drain")
    w.event(at, "Normal", "Killing", w.pod(w.victim), "Stopping container trainer", "secondary", "kill")
    w.silence(w.victim, at + 1)
    w.broken(at + 2, [w.victim])
    w.over(at + 14, first=0)
    w.truth = Truth("platform", "preemption", origin=(w.victim,), also_symptoms=("killed", "preempted"), **w.at_last())


def cancelled_by_its_owner(w: Fresh) -> None:
    """Somebody cancels a job that ran well; the accounting names the person."""
    w.start()
    w.train(38, save_every=19)
    at = w.now + 1
    text = f"slurmstepd: error: *** STEP {w.job}.0 ON {w.nodes[0]} CANCELLED AT {_moment(w, at)} ***"
    w.launcher(at, text, "root", "cancelled")
    w.over(at + 1, "srun: Job step aborted: Waiting up to 92 seconds for job step to finish.")
    w.launcher(
        at + 60,
        f"JobID|JobName|State|ExitCode|End\n{w.job}|pretrain|CANCELLED by 10432|0:0|{_moment(w, at + 2)}",
        "context",
        "sacct",
    )
    w.truth = Truth("platform", "cancelled", also_symptoms=("killed", "none"), **w.at_last())


def node_failure_by_slurm(w: Fresh) -> None:
    """A machine is lost; Slurm notices before any watchdog does."""
    w.start()
    w.train(25)
    at = w.now + 0.3 * w.step_s
    w.silence(w.victim, at)
    w.launcher(at + 290, f"srun: error: Node failure on {w.nodes[w.victim]}", "root", "failure")
    for k, what in enumerate((f"JOB {w.job}", f"STEP {w.job}.0")):
        w.launcher(
            at + 291,
            f"slurmstepd: error: *** {what} ON {w.nodes[0]} CANCELLED AT {_moment(w, at + 291)} DUE TO NODE FAILURE, "
            "SEE SLURMCTLD LOG FOR DETAILS ***",
            "root",
            f"cancelled{k}",
        )
    w.over(at + 292, "srun: Job step aborted: Waiting up to 92 seconds for job step to finish.")
    w.truth = Truth(
        "hardware",
        "node_lost",
        faulty=(w.victim,),
        also_symptoms=("hang",),
        also_categories=("platform",),
        also_subcategories=("kernel_panic",),
        **w.at_last(),
    )


def evicted_for_its_disk(w: Fresh) -> None:
    """A pod filled the disk of its machine and is evicted; only an event says so."""
    w.start()
    w.train(32, save_every=8)
    at = w.now + 0.5 * w.step_s
    w.event(
        at - 30,
        "Warning",
        "FreeDiskSpaceFailed",
        f"node/{w.nodes[w.victim]}",
        "Failed to garbage collect required amount of images. Attempted to free 53687091200 bytes, but only found 0 "
        "bytes eligible to free.",
        "root",
        "free",
    )
    w.event(
        at,
        "Warning",
        "Evicted",
        w.pod(w.victim),
        "The node was low on resource: ephemeral-storage. Threshold quantity: 322122547200, available: 291504Ki. "
        "Container trainer was using 5120418Mi, request is 0, has larger consumption of ephemeral-storage.",
        "root",
        "evicted",
    )
    w.silence(w.victim, at + 1)
    w.broken(at + 3, [w.victim])
    w.over(at + 15, first=0)
    w.truth = Truth(
        "hardware",
        "disk_full",
        origin=(w.victim,),
        also_categories=("platform", "user"),
        also_subcategories=("storage_quota",),
        also_symptoms=("killed",),
        **w.at_last(),
    )


PLATFORM: dict[str, Entry] = {
    "no_such_image": (no_such_image, 32, KUBERNETES),
    "one_device_short": (one_device_short, 0, ("pulse", "xingyun")),
    "name_node_in_safe_mode": (name_node_in_safe_mode, 0, PYTHON),
    "file_server_away": (file_server_away, 32, PATIENT),
    "controller_not_reachable": (controller_not_reachable, 64, SLURM),
    "preempted_by_slurm": (preempted_by_slurm, 64, SLURM),
    "spot_machine_called_back": (spot_machine_called_back, 0, KUBERNETES),
    "cancelled_by_its_owner": (cancelled_by_its_owner, 32, SLURM),
    "node_failure_by_slurm": (node_failure_by_slurm, 128, SLURM),
    "evicted_for_its_disk": (evicted_for_its_disk, 24, KUBERNETES),
}
