from __future__ import annotations

import pytest

from kernels.gate.arrivals import announcements

ARRIVE = "\t@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];"
RELEASE = "\t@%p1 atom.global.gpu.release.add.u32 %r2, [ %rd1 + 0 ], 1;"
MEET = "\tbar.sync \t0, 256;"


@pytest.mark.parametrize("announce", [ARRIVE, RELEASE, RELEASE.replace("atom", "red")])
@pytest.mark.parametrize(
    ("before", "met"),
    [
        ([MEET], True),
        (["\tbarrier.sync 1;", "\tadd.s32 %r1, %r1, 1;", "\tld.param.b64 %rd1, [p_0];"], True),
        ([], False),
        ([MEET, "\tst.shared.v4.b32 [%r24], {%r1, %r2, %r3, %r4};"], False),
        ([MEET, "\t@%p2 ld.global.gpu.acquire.b32 %r3, [%rd2];"], False),
        ([MEET, "\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];"], False),
        ([MEET, "\twgmma.wait_group.sync.aligned 1;"], False),
        ([MEET, "\tcp.async.cg.shared.global [%r1], [%rd1], 16;"], False),
        ([MEET, "\tmbarrier.try_wait.parity.shared.b64 complete, [%r1], %r2;"], False),
        ([MEET, "$L__BB0_7:   // a loop"], False),
        ([MEET, "\t@%p3 bra \t$L__BB0_9;"], False),
        ([MEET, "$L__tmp3:", "\t// ld.shared in a comment"], True),
        (["\t// bar.sync in a comment"], False),
    ],
)
def test_a_barrier_counts_until_memory_is_touched_or_paths_join(
    before: list[str], met: bool, announce: str
) -> None:
    count, bare = announcements("\n".join([*before, announce]))

    assert count == 1
    assert bare == ([] if met else [f"line {len(before) + 1}: {announce.strip()}"])


@pytest.mark.parametrize(
    "own",
    [
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];",
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 32768;",
        "@%p1 atom.global.gpu.relaxed.add.u32 %r2, [ %rd1 + 0 ], 1;",
    ],
)
def test_what_hands_nothing_over_is_no_announcement(own: str) -> None:
    assert announcements(f"\t{own}") == (0, [])


def test_two_in_a_row_need_one_meeting() -> None:
    assert announcements("\n".join([MEET, ARRIVE, ARRIVE])) == (2, [])
