from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.backend import BACKEND
from kernels.moe import schedule as schedule_module
from kernels.moe import table_check
from kernels.moe.plan import Cut, Work
from kernels.moe.routing import KINDS, draw_routing
from kernels.moe.schedule import Schedule, allocate, build

DEVICE = BACKEND.device
CUTS = [Cut(16), Cut(16, 8), Cut(16, 8, wide=True), Cut(64, 16), Cut(128, 64, wide=True)]
WORKS = [
    None,
    Work(2, 128, 5, 256, late=2, combine_tokens=4, group=2),
    Work(1, 128, 1, 256),
    Work(3, 128, 4, 256, late=0, group=3),
]


def built(ids: torch.Tensor, experts: int, cut: Cut, work: Work | None) -> Schedule:
    tokens, top_k = ids.shape
    return build(allocate(tokens, top_k, experts, cut, work, DEVICE), ids.to(DEVICE)).on_cpu()


def problems(schedule: Schedule, ids: torch.Tensor) -> list[str]:
    found = table_check.check_rows(schedule, ids)
    return found + table_check.check_tiles(schedule) + table_check.check_items(schedule)


@pytest.mark.parametrize(("columns", "late"), [(1, 0), (1, 1), (2, 1), (5, 2), (7, 0), (7, 9)])
def test_early_columns_come_before_late_ones_and_are_combined_after_both(
    columns: int, late: int
) -> None:
    work = Work(1, 128, columns, 256, late=late, combine_tokens=1)
    table = built(torch.tensor([[0, 1]], dtype=torch.int32), 2, Cut(16), work)

    items = table.items[: table.totals[4]].tolist()
    downs = [item[5] // 256 for item in items if item[0] == 1]
    combines = [item[5] // 256 for item in items if item[0] == 2]
    early = max(columns - late, 0)
    assert [n < early for n in downs] == [True] * 2 * early + [False] * 2 * (columns - early)
    assert combines == list(range(columns))
    assert [item[0] for item in items] == sorted(item[0] for item in items)


@pytest.mark.parametrize(
    ("choices", "experts", "block"),
    [
        (16384, 64, 128),
        (16384, 256, 128),
        (32768, 128, 256),
        (131072, 64, 512),
        (1 << 22, 64, 1024),
    ],
)
def test_a_block_is_small_unless_all_counts_would_be_too_many_to_read(
    choices: int, experts: int, block: int
) -> None:
    assert schedule_module.block_of(choices, experts) == block


@st.composite
def any_ids(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    """Ids of any routing at all: repeats, empty experts, and values outside [0, E)."""
    experts = draw(st.integers(1, 11))
    tokens, top_k = draw(st.integers(1, 24)), draw(st.integers(1, 6))
    value = st.integers(-2, experts + 1)
    flat = draw(st.lists(value, min_size=tokens * top_k, max_size=tokens * top_k))
    return torch.tensor(flat, dtype=torch.int32).view(tokens, top_k), experts


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    drawn=any_ids(),
    cut=st.sampled_from(CUTS),
    work=st.sampled_from(WORKS),
    launches=st.sampled_from([1, 2]),
    packed=st.booleans(),
)
def test_any_routing_is_covered_once_in_bounds_and_in_order(
    drawn: tuple[torch.Tensor, int], cut: Cut, work: Work | None, launches: int, packed: bool
) -> None:
    ids, experts = drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule_module, "FEW_CHOICES", 512 if launches == 1 else 0)
        patch.setattr(schedule_module, "PACKED_CHOICES", 1 << 16 if packed else 0)
        table = built(ids, experts, cut, work)

    assert problems(table, ids) == []


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("counts_read", "blocks"), [(1 << 22, 9), (1, 2)])
def test_blocks_of_any_size_are_counted_ranked_and_summed(
    counts_read: int, blocks: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = draw_routing("zipf", 180, 6, 6, seed=3).ids
    monkeypatch.setattr(schedule_module, "COUNTS_READ", counts_read)
    monkeypatch.setattr(schedule_module, "PACKED_CHOICES", 1 << 16 if packed else 0)
    monkeypatch.setattr(schedule_module, "PAIRS_HELD", 16)

    table = built(ids, 6, Cut(16, 8), WORKS[1])

    assert table.counts.shape[0] == blocks
    assert problems(table, ids) == []


@pytest.mark.parametrize("kind", KINDS)
def test_more_choices_than_one_block_holds(kind: str) -> None:
    ids = draw_routing(kind, 180, 6, 3, seed=1).ids
    assert ids.numel() > schedule_module.FEW_CHOICES

    assert problems(built(ids, 6, Cut(16, 8, wide=True), WORKS[1]), ids) == []


def test_more_experts_than_a_small_block_serves() -> None:
    ids = draw_routing("uniform", 40, 300, 6, seed=1).ids

    assert problems(built(ids, 300, Cut(16), None), ids) == []


def test_a_table_is_reused_for_another_routing() -> None:
    cut, work = Cut(16, 8), WORKS[1]
    schedule = allocate(30, 2, 5, cut, work, DEVICE)
    for seed in range(2):
        ids = draw_routing("uniform", 30, 5, 2, seed).ids

        rebuilt = build(schedule, ids.to(DEVICE)).on_cpu()

        assert problems(rebuilt, ids) == []


def test_int64_ids_give_the_same_table() -> None:
    ids = draw_routing("masked", 20, 5, 2, seed=3).ids

    narrow, wide = (built(kind, 5, Cut(16), None) for kind in (ids, ids.long()))

    assert torch.equal(narrow.row_of_choice, wide.row_of_choice)


@pytest.mark.parametrize("launches", [1, 2])
def test_wide_ids_whose_low_half_names_an_expert_are_dropped(
    launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_module, "FEW_CHOICES", 512 if launches == 1 else 0)
    ids = draw_routing("uniform", 20, 5, 2, seed=3).ids.long()
    outside = torch.tensor([2**32 + 1, 2**40, -(2**40), 2**63 - 1, -(2**32) + 2])
    ids[::4, 0] = outside

    table = built(ids, 5, Cut(16), WORKS[1])

    assert problems(table, ids) == []
    assert table.row_of_choice.view(20, 2)[::4, 0].tolist() == [-1] * 5


def test_no_token_makes_an_empty_table() -> None:
    schedule = built(torch.empty(0, 2, dtype=torch.int32), 4, Cut(16), WORKS[1])

    assert schedule.totals.tolist() == [0] * 5
    assert schedule.offsets.tolist() == [0] * 5


def test_all_dropped_leaves_only_combinations() -> None:
    ids = torch.full((9, 2), -1, dtype=torch.int32)

    schedule = built(ids, 4, Cut(16), WORKS[1])

    assert problems(schedule, ids) == []
    assert int(schedule.totals[0]) == 0
    assert set(schedule.items[: int(schedule.totals[4]), 0].tolist()) == {table_check.COMBINE}


def test_ids_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 2\).*\(5, 2\)"):
        build(allocate(5, 2, 3, Cut(16)), torch.zeros(4, 2, dtype=torch.int32))


@pytest.mark.parametrize(
    ("rows", "cut", "expected"),
    [
        (0, Cut(128, 64, wide=True), []),
        (16, Cut(64, 16), [(0, 16)]),
        (17, Cut(64, 16), [(17, 0)]),
        (256, Cut(128, 32), [(128, 0), (128, 0)]),
        (260, Cut(128, 32), [(128, 0), (128, 4)]),
        (300, Cut(128, 32), [(128, 0), (128, 0), (44, 0)]),
        (512, Cut(128, 64, wide=True), [(128, 0), (128, 64), (128, 64)]),
        (385, Cut(128, 64, wide=True), [(128, 0), (128, 0), (128, 1)]),
    ],
)
def test_rows_are_cut_as_intended(rows: int, cut: Cut, expected: list[tuple[int, int]]) -> None:
    ids = torch.zeros(rows, 1, dtype=torch.int32)

    schedule = built(ids, 1, cut, None)

    tiles = schedule.tiles[: int(schedule.totals[0])].tolist()
    assert [(body, tail) for _, _, body, tail in tiles] == expected


@pytest.mark.parametrize(
    ("where", "at", "value", "said"),
    [
        ("choice_of_row", 3, 0, "row 3 holds choice 0"),
        ("row_of_choice", 5, 0, "choice 5 is in row 0"),
        ("offsets", 2, 0, "rows, not"),
        ("tiles", (0, 1), 1, "row 0 is covered 0 times"),
        ("tiles", (0, 2), 17, "outside the cut"),
        ("tiles", (0, 0), 9, "no such expert"),
        ("signals", 1, 1, "signals are not zero"),
    ],
)
def test_a_damaged_table_is_found_out(
    where: str, at: int | tuple[int, int], value: int, said: str
) -> None:
    ids = draw_routing("uniform", 20, 3, 2, seed=0).ids
    schedule = built(ids, 3, Cut(16), WORKS[1])

    getattr(schedule, where)[at] = value

    assert any(said in problem for problem in problems(schedule, ids))


def test_an_item_before_what_it_waits_for_is_found_out() -> None:
    ids = draw_routing("uniform", 20, 3, 2, seed=0).ids
    schedule = built(ids, 3, Cut(16), WORKS[1])
    count = int(schedule.totals[4])

    backwards = replace(schedule, items=schedule.items[:count].flip(0))

    found = table_check.check_items(backwards)
    assert any("layer-0 columns so far" in problem for problem in found)
    assert any("come first" in problem for problem in found)


def test_a_missing_item_is_found_out() -> None:
    ids = draw_routing("uniform", 20, 3, 2, seed=0).ids
    schedule = built(ids, 3, Cut(16), WORKS[1])

    schedule.totals[4] -= 1

    assert "never combined" in table_check.check_items(schedule)[-1]


@pytest.mark.parametrize(
    ("token", "column", "said"),
    [
        (4, 256, "pairs are combined more than once"),
        (400, 256, "combines token 400, column 256, which are not there"),
        (4, 2304, "combines token 4, column 2304, which are not there"),
    ],
)
def test_a_combination_too_many_or_of_nothing_is_found_out(
    token: int, column: int, said: str
) -> None:
    ids = draw_routing("uniform", 20, 3, 2, seed=0).ids
    work = WORKS[1]
    assert work is not None
    schedule = built(ids, 3, Cut(16), work)
    items = schedule.items[: int(schedule.totals[4])]
    item = items[-1].clone()
    item[2], item[5], item[7] = token, column, int(column // 256 >= work.early)
    more = replace(schedule, items=torch.cat([items, item[None]]))
    more.totals[4] += 1

    assert any(said in problem for problem in table_check.check_items(more))


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_part_that_begins_elsewhere_is_found_out(part: int) -> None:
    ids = draw_routing("uniform", 20, 3, 2, seed=0).ids
    schedule = built(ids, 3, Cut(16), WORKS[1])

    schedule.totals[part] += 1

    assert any("the parts begin at items" in one for one in table_check.check_items(schedule))


def test_sums_that_fill_sixteen_bits_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^16 rows of one expert: one more than half of an int32 holds."""
    monkeypatch.setattr(schedule_module, "block_of", lambda choices, experts: 1024)
    ids = torch.zeros(1 << 16, 1, dtype=torch.int32)

    assert problems(built(ids, 2, Cut(128), None), ids) == []
