"""The command that names the rule of a line."""

from diagnosis.logs.signatures.__main__ import deciding


def test_a_line_is_answered_with_its_rule_role_category_and_file() -> None:
    line = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."
    assert deciding(line) == "nvidia.xid.79  root  hardware.gpu.off_bus  nvidia.toml"
    assert deciding("For debugging consider passing CUDA_LAUNCH_BLOCKING=1").endswith("noise.toml")
    assert deciding("hello") == "no rule matches"
