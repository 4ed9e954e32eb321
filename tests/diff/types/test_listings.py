"""PTX and SASS: what counts as another kernel, and what compilers may do as they like."""

from __future__ import annotations

import pytest

from orchestrator.diff.record import Record
from orchestrator.diff.types import ptx, sass
from tests.diff import makers
from tests.diff.conftest import Compare


def places(record: Record) -> dict[str, tuple[str, str]]:
    return {place.where: (place.a, place.b) for place in record.locations}


def only_child(record: Record) -> Record:
    (child,) = record.children
    return child


# ---- PTX


def test_the_compilers_version_alone_is_no_difference(compare: Compare) -> None:
    newer = makers.PTX.replace(".version 8.4", ".version 8.5")
    newer = newer.replace("release 12.4", "release 12.5")

    record = compare(makers.PTX, newer, "x.ptx")

    assert record.status == "equal"
    assert ".version 8.4" in record.note
    assert ".version 8.5" in record.note


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%r3", "%r33"),
        ("$L__BB0_2", "$L__BB4_9"),
        ("scale_param_", "scale_param_"),
        ("\t.loc\t1 5 0\n", "\t.loc\t7 5 0\n\t.loc\t1 9 0\n"),
        ("/* twice */", "// two\n"),
        ("%r<6>", "%r<60>"),
        ("\tret;", "   ret ;".replace(" ;", ";")),
    ],
)
def test_what_compilers_number_or_note_is_no_difference(
    old: str, new: str, compare: Compare
) -> None:
    assert old in makers.PTX

    record = compare(makers.PTX, makers.PTX.replace(old, new) + "\n", "x.ptx")

    assert record.status == "equal"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (".maxntid 128", ".maxntid 256", "instruction 5 / 5"),
        ("tile[512]", "tile[1024]", "shared_bytes"),
        (".target sm_90", ".target sm_80", "arch"),
        ("shl.b32", "shr.b32", "opcode shl.b32"),
        ("%r3, 1;", "%r3, 2;", "instruction 16 / 16"),
        ("[%rd4], %r4", "[%rd4], %r3", "instruction 17 / 17"),
    ],
)
def test_what_the_machine_sees_is_a_difference(
    old: str, new: str, where: str, compare: Compare
) -> None:
    record = compare(makers.PTX, makers.PTX.replace(old, new), "x.ptx")

    assert record.status == "different"
    assert where in places(only_child(record))


def test_a_renamed_kernel_is_found_by_its_instructions(compare: Compare) -> None:
    record = compare(makers.PTX, makers.PTX.replace("scale", "twice"), "x.ptx")

    assert record.status == "different"
    assert places(record) == {"renamed": ("scale", "twice")}
    assert record.children == ()


def test_globals_of_the_module_count(compare: Compare) -> None:
    with_global = makers.PTX.replace(".visible", ".const .align 4 .b8 lut[16];\n.visible")

    assert compare(makers.PTX, with_global, "x.ptx").status == "different"


def test_counts_are_those_of_the_kernel() -> None:
    (kernel,) = ptx.parse(makers.PTX).kernels

    assert (kernel.name, kernel.arch) == ("scale", "sm_90")
    assert kernel.resources == {"shared_bytes": 512, "stack_bytes": 0}
    assert kernel.instructions == 12
    assert kernel.opcodes["ld.param.u64"] == 1


@pytest.mark.parametrize(
    "text", ["", "ld.global.u32 %r1, [%rd1];", makers.PTX[:300], makers.PTX.split(".visible")[0]]
)
def test_malformed_ptx_is_unreadable(text: str, compare: Compare) -> None:
    assert compare(makers.PTX, text, "x.ptx", type="ptx").status == "unreadable"


# ---- SASS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("R7", "R27"),
        ("R9.reuse", "R9"),
        ("[0x218]", "[0x228]"),
        ("0x0000000107097819", "0x0000000107097820"),
        (".L_x_0", ".L_x_8"),
    ],
)
def test_renamed_registers_and_moved_constants_are_no_difference(
    old: str, new: str, compare: Compare
) -> None:
    record = compare(makers.SASS, makers.SASS.replace(old, new) + "\n", "x.sass")

    assert record.status == "equal"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("REG:10", "REG:40", "registers"),
        ("SHARED:512", "SHARED:0", "shared_bytes"),
        ("SHF.L.U32", "IMAD.SHL.U32", "opcode SHF.L.U32"),
        ("0x1, RZ", "0x2, RZ", "instruction 6 / 6"),
        ("@P0 EXIT", "@!P0 EXIT", "instruction 4 / 4"),
        ("[R2.64], R9", "[R2.64], R7", "instruction 7 / 7"),
        ("code for sm_90", "code for sm_80", "arch"),
        ("BRA 0x80", "BRA 0x40", "instruction 10 / 10"),
    ],
)
def test_what_the_machine_runs_is_a_difference(
    old: str, new: str, where: str, compare: Compare
) -> None:
    record = compare(makers.SASS, makers.SASS.replace(old, new), "x.sass")

    assert record.status == "different"
    assert where in places(only_child(record))


def test_a_branch_that_moved_with_its_target_is_no_difference() -> None:
    moved = makers.SASS.replace("/*0080*/", "/*0180*/").replace("BRA 0x80", "BRA 0x180")

    one, two = (sass.parse(text).kernels[0] for text in (makers.SASS, moved))

    assert one.hash == two.hash


PTXAS = """ptxas info    : Compiling entry function '_Z5scalePfi' for '{arch}'
ptxas info    : Function properties for _Z5scalePfi
    {stack} bytes stack frame, {spill} bytes spill stores, 16 bytes spill loads
ptxas info    : Used {regs} registers, 512+16 bytes smem, 372 bytes cmem[0]
"""


def test_spills_and_registers_come_from_what_ptxas_says(compare: Compare) -> None:
    a = PTXAS.format(arch="sm_90", stack=0, spill=0, regs=64)
    b = PTXAS.format(arch="sm_90", stack=32, spill=48, regs=72)

    record = compare(a, b, "build.ptxas")

    child = only_child(record)
    assert record.type == "sass"
    assert child.path == "scale(float*, int)"
    assert places(child) == {
        "registers": ("64", "72"),
        "spill_store_bytes": ("0", "48"),
        "stack_bytes": ("0", "32"),
    }
    assert child.metrics["shared_bytes_a"] == 528


def test_the_same_kernel_for_two_architectures_is_two_kernels(compare: Compare) -> None:
    old = PTXAS.format(arch="sm_80", stack=0, spill=0, regs=64)
    new = PTXAS.format(arch="sm_90", stack=0, spill=0, regs=64)

    record = compare(old + new, old + new.replace("Used 64", "Used 65"), "build.ptxas")

    assert record.metrics == {"kernels_equal": 1, "kernels_different": 1}
    assert only_child(record).path == "scale(float*, int) for sm_90"


def test_a_resource_that_is_not_told_is_no_zero(compare: Compare) -> None:
    without = makers.SASS.split("Function scale:")[0] + makers.SASS.split("SAMPLER:0\n")[1]

    record = compare(makers.SASS, without, "x.sass")

    assert places(only_child(record))["registers"] == ("10", "not told")
