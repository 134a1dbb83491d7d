"""The members that should have sent next when a job stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diagnosis.kinds.flows.capture.capture import Capture, Flows
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.stopped.ceased import silent_members
from tests.diagnosis.kinds.flows.test_stragglers import capture


def stopped(owing: int) -> tuple[JobFlows, Steps, Capture]:
    """A ring in which one machine sends nothing after the last step, while its neighbours send that they are ready and
    its kernel acknowledges.
    """
    job, steps, whole = capture()
    end, flows = float(steps.end[-1]), whole.flows
    rows = []
    for m in range(4):
        for other in ((m + 1) % 4, (m - 1) % 4):
            if m != owing:
                rows.append((end + 0.5, m, other, 300.0, False))
            else:
                rows.append((end + 0.51, m, other, 52.0, True))
    rows.append((end + 9.0, 0, 2, 300.0, False))  # a heartbeat on another connection: the capture goes on
    start, src, dst, size, empty = (np.array(column) for column in zip(*sorted(rows), strict=True))
    ids = src.astype(np.int32), dst.astype(np.int32)
    port = (1000 + np.minimum(*ids) * 4 + np.maximum(*ids)).astype(np.int32)
    more = Flows(
        start, start + 0.001, *ids, size, port, np.full(len(start), -1, np.int32), np.ones(len(start), bool), empty
    )
    both = Flows(*(np.concatenate(parts) for parts in zip(flows.columns(), more.columns(), strict=True)))
    return job, steps, replace(whole, flows=both)


def test_a_member_that_received_data_and_never_answered_is_first() -> None:
    for machine in range(4):
        first, *others = silent_members(*stopped(owing=machine))
        assert (first.name, first.owes) == (f"n{machine}", True)
        assert not any(row.owes for row in others)


def test_where_the_capture_ends_with_the_job_nobody_is_listed() -> None:
    assert silent_members(*capture()) == []
