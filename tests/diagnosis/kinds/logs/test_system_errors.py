"""The same words of the operating system name different faults: their caller and object decide."""

from collections.abc import Sequence
from typing import Final

import pytest

from diagnosis.kinds.logs.meaning import signatures

#: An error of the system as a program prints it, and the category of its fault.
LINES: Final = (
    ("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1f2e'", "user.config.invalid"),
    ("RuntimeError: unable to write to file </torch_91_4>: No space left on device (28)", "user.config.invalid"),
    ("mkdir /sys/fs/cgroup/memory/docker/1: no space left on device", "user.config.invalid"),
    ("OSError: [Errno 28] No space left on device: inotify_add_watch('/data/queue')", "user.config.invalid"),
    ("vfs_fuse.c:281  UCX  ERROR inotify_add_watch(/tmp) failed: No space left on device", "none"),
    ("OSError: [Errno 28] No space left on device: '/local/nvme0/ckpt/a.pt'", "hardware.disk.full"),
    ("OSError: [Errno 28] No space left on device: '/mnt/run/a.pt'", "platform.storage.quota"),
    ("libfabric:3:1::efa:mr:efa_mr_reg_impl():611<warn> Unable to register MR: Cannot allocate memory", "user.config"),
    ("OSError: [Errno 12] Cannot allocate memory", "hardware.host.oom"),
    ("pthread_create failed for thread 63 of 64: Resource temporarily unavailable", "user.config.invalid"),
    ("init.cc:943 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", "user.config"),
)


def rule_of(line: str) -> signatures.Signature:
    rules = signatures.load()
    found = rules.rule(rules.match_texts([line])[0] or "")
    assert found is not None
    return found


@pytest.mark.parametrize(("line", "category"), LINES, ids=[line[:40] for line, _ in LINES])
def test_the_caller_and_the_object_of_an_error_of_the_system_decide_its_category(line: str, category: str) -> None:
    assert rule_of(line).category.startswith(category)


def test_an_error_and_its_object_match_in_either_order() -> None:
    said: Sequence[str] = ("semget failed: No space left on device", "ENOSPC: no more objects of semget")
    assert {rule_of(line).id for line in said} == {"kernel.object_limit"}


def test_a_rule_that_names_an_unknown_object_is_refused_with_its_name() -> None:
    text = (
        '[[signature]]\nid = "a.b"\nerror = "no_space"\nobject = "nothing"\n[errors]\nno_space = "ENOSPC"\n[objects]\n'
    )
    with pytest.raises(signatures.SignatureError, match=r"a\.b: the file states no error or object 'nothing'"):
        signatures.parse(text)
