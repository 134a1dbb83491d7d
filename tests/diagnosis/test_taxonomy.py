"""The category tree is complete, consistent and survives ids it does not know."""

import pytest

from diagnosis import taxonomy
from diagnosis.taxonomy import TaxonomyError

WANTED = {
    "hardware": "gpu_off_bus gpu_ecc nvlink_error gpu_gsp_hang gpu_kernel npu_error nic_link_flap pcie_aer host_oom"
    " kernel_panic node_lost process_killed disk_io disk_full mce_memory thermal_slowdown silent_data_corruption",
    "network": "rdma_congestion switch_rdma_timeout link_down packet_loss",
    "framework": "nccl_internal rendezvous_timeout ckpt_corrupt collective_mismatch dataloader_hang elastic_restart",
    "user": "cuda_oom host_memory_leak shape_mismatch bad_config bad_argument import_error dataset_missing"
    " nan_divergence bad_data_assert user_code_exception native_crash",
    "platform": "preemption time_limit cancelled image_pull device_alloc storage_quota storage_outage scheduler",
    "performance": "straggler slow_dataloader slow_network slow_step",
    "none": "none",
    "unknown": "unknown",
}


@pytest.mark.parametrize(("category", "subcategory"), [(c, s) for c, names in WANTED.items() for s in names.split()])
def test_every_pair_that_a_report_may_carry_has_a_leaf(category: str, subcategory: str) -> None:
    assert taxonomy.load().leaf_of(category, subcategory) is not None


def test_every_category_has_its_parents() -> None:
    tree = taxonomy.load()
    for node in tree:
        parent = node.id.rpartition(".")[0]
        assert not parent or parent in tree, f"{node.id} has no parent"


def test_a_leaf_is_below_the_top_that_its_report_names() -> None:
    for leaf in taxonomy.load().leaves():
        assert leaf.root == leaf.category


def test_every_text_ends_as_a_sentence() -> None:
    for node in taxonomy.load():
        assert node.explanation.endswith(".")
        assert not node.advice or node.advice.endswith(".")
        assert not node.title.endswith(".")


def test_an_id_of_another_version_falls_back_to_its_nearest_parent() -> None:
    tree = taxonomy.load()
    assert tree.get("hardware.gpu.ecc.sram").id == "hardware.gpu.ecc"
    assert tree.get("quantum.flux").id == "unknown"


def test_a_path_gives_the_titles_from_the_top() -> None:
    assert taxonomy.load().path("hardware.gpu.ecc") == ("Hardware", "GPU", "GPU memory error")


def entry(category_id: str, leaf: bool = True) -> str:
    pair = f'category = "{category_id.partition(".")[0]}"\nsubcategory = "x"\nadvice = "Do."' if leaf else ""
    return f'[[category]]\nid = "{category_id}"\ntitle = "T"\nexplanation = "E."\n{pair}\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (entry("a") + entry("a"), "twice"),
        (entry("a") + entry("a.b"), "is a leaf"),
        (entry("none"), "needs the leaves"),
        (entry("a").replace('advice = "Do."', ""), "needs advice"),
        (entry("a").replace('title = "T"', 'title = ""'), "needs a title"),
    ],
)
def test_a_tree_that_contradicts_itself_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(TaxonomyError, match=complaint):
        taxonomy.parse(text)
