"""What a number in a line measures, in the words of many programs."""

import pytest

from diagnosis.kinds.logs.compare.quantities import quantities, step_of
from diagnosis.kinds.logs.pace.writer_numbers import rank_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rank=3 step=12 loss=1.88 compute_ms=173.5 wait_ms=12", ["compute_ms work 0.1735 s", "wait_ms wait 0.012 s"]),
        ("[rank 3] iteration 12/90 | forward pass took 220 ms | lr 1e-4", ["forward pass took work 0.22 s"]),
        ("iter 12 throughput: 820.5 samples/sec", ["throughput rate 820.5 samples/sec"]),
        ("| step: 12 | tps: 14,300 | mfu: 35.75%", ["tps rate 14300.0", "mfu rate 35.75"]),
        ("12/400 [4.60it/s, loss=2.1]", ["it/s rate 4.6 it/s"]),
        ("12/400 1.2s/it", ["time work 1.2 s"]),
        ("all_reduce bus bandwidth 21.5 GB/s", ["all_reduce bus bandwidth rate 21.5 GB/s"]),
        ("wrote part-3.pt (7.8 MB) in 0.5 s", ["wrote in work 0.5 s"]),
        ("dataloader waited 0.5 s, compute 0.25 s", ["dataloader waited work 0.5 s", "compute work 0.25 s"]),
        ("step 12: 8 micro-batches, 4000 tokens in 200.0 ms", ["tokens size 4000.0 tokens", "tokens in work 0.2 s"]),
        ("step 12 num_microbatches 8 fwd-bwd 320 ms", ["num_microbatches size 8.0 fwd-bwd", "fwd-bwd work 0.32 s"]),
        ("shard 3 loaded in 9m30s", ["loaded in work 570.0 s"]),
        ("fwdTime: 33.5 bwd: 66.5", ["fwdTime work 33.5", "bwd work 66.5"]),
        ("pp_rank=2 dp_rank=3 fwd_ms=150", ["pp_rank stage 2.0", "fwd_ms work 0.15 s"]),
        ("host_mem_gb=32.5 roce_retrans=440", ["host_mem_gb level 32.5", "roce_retrans level 440.0"]),
        ("2026-03-02 08:00:01 eta 3 s, total time 90 s, loss 2.1, port 29500", []),
    ],
)
def test_the_words_and_the_unit_of_a_number_say_what_it_measures(line: str, expected: list[str]) -> None:
    told = [f"{one.name} {one.sense} {round(one.value, 6)} {one.unit}".strip() for one in quantities(line)]
    assert told == expected


def test_a_line_says_of_which_step_and_rank_it_is() -> None:
    assert (step_of("iter 12/90 took 1 s"), step_of("no number")) == (12, None)
    assert rank_of("2026-03-02 [rank 3] step 12") == rank_of("r03 it=12") == rank_of("worker 3 is done") == 3
    assert rank_of("local_rank=1 pp_rank=2") is None
