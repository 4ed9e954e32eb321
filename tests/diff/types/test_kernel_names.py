from __future__ import annotations

import json

import pytest

from orchestrator.diff.listings.kernel_classes import TABLE, UNKNOWN, class_of, folded
from orchestrator.diff.types.kernel_names import read
from tests.diff.conftest import Compare, write


@pytest.mark.parametrize(
    "text",
    [
        "gemm\nrelu\ngemm\n",
        "2 gemm\n1 relu\n",
        "gemm\t2\nrelu\t1\n",
        "gemm: 2\nrelu: 1\n",
        json.dumps(["gemm", "relu", "gemm"]),
        json.dumps({"gemm": 2, "relu": 1}),
        json.dumps({"kernels": [{"name": "gemm", "count": 2}, {"name": "relu"}]}),
        "Time (%),Instances,Name\n50.0,2,gemm\n50.0,1,relu\n",
        (
            '==PROF== x\n"ID","Kernel Name","Metric Name"\n'
            '"0","gemm","a"\n"0","gemm","b"\n"1","relu","a"\n"2","gemm","a"\n'
        ),
    ],
)
def test_every_layout_gives_the_same_counts(text: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = read(write(tmp_path / "list", text), 1 << 20)

    assert found == {"gemm": 2, "relu": 1}


@pytest.mark.parametrize("text", ["", "# none\n", "[1]", '{"a": -1}', '{"a": "x"}', "[", b"\xff"])
def test_a_list_without_names_is_unreadable(text: str | bytes, compare: Compare) -> None:
    record = compare("gemm\n", text, "x.kernels", type="kernels")

    assert record.status == "unreadable"


def test_mangled_names_are_read_back(compare: Compare) -> None:
    record = compare("_Z5scalePfi\n", "scale(float*, int)\n", "x.kernels")

    assert record.status == "equal"


def test_template_arguments_are_folded_and_counted(compare: Compare) -> None:
    record = compare("void f<1, g<2>>(int)\nh\n", "void f<7, g<2>>(int)\nh\n", "x.kernels")

    assert record.status == "equal_after_masks"
    assert dict(record.masks) == {"template arguments": 1}


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void at::native::f<int, std::array<char*, 2>>(int)", "at::native::f"),
        ("(anonymous namespace)::k(float)", "{anonymous}::k"),
        ("plain_kernel", "plain_kernel"),
        ("a<b", "a"),
        ("<>", "<>"),
    ],
)
def test_folding_keeps_the_name(name: str, bare: str) -> None:
    assert folded(name) == bare


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", "communication"),
        ("Memcpy DtoH (Device -> Pageable)", "memory copy"),
        ("void at::native::vectorized_elementwise_kernel", "elementwise"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", "matrix multiplication"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", "matrix multiplication"),
        ("void flash_fwd_kernel", "attention"),
        ("fused_moe_kernel", "mixture of experts"),
        ("triton_poi_fused_add_0", "elementwise"),
        ("my_new_thing", UNKNOWN),
    ],
)
def test_a_name_has_the_class_of_the_first_row_that_fits(name: str, kind: str) -> None:
    assert class_of(name) == kind


def test_names_of_no_class_are_listed(compare: Compare) -> None:
    record = compare("my_new_thing\n", "my_new_thing\nmy_new_thing\n", "x.kernels")

    assert record.metrics["unknown_names"] == 1
    assert "of no known class: my_new_thing" in record.note
    assert len(dict(TABLE)) == len(TABLE)
