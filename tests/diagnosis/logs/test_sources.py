"""Names of machines in paths of output files."""

from diagnosis.logs.sources import Sources, without_job


def test_the_job_before_several_machines_is_no_part_of_their_names() -> None:
    def names(*paths: str) -> list[str | None]:
        return [sources[0].node for sources in without_job([Sources(path).all for path in paths])]

    assert names("out/heron.3050574.tdc7-091.fabric.log", "out/heron.3050574.tdc7-092.fabric.log") == [
        "tdc7-091.fabric",
        "tdc7-092.fabric",
    ]
    assert names("rack-101-a7.log", "rack-101-a8.log") == ["rack-101-a7", "rack-101-a8"]
    assert names("heron.3050574.tdc7-091.log") == ["heron.3050574.tdc7-091"]
    assert names("heron.3050574.tdc7-091.log", "gpu-7/train.log")[1] == "gpu-7"
