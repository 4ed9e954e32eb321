from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orchestrator.report import watched
from orchestrator.report.html.sections import steps
from orchestrator.store.watched import Spread, Watched
from tests.report.html.sections.views import view
from tests.verdict.runs import history, job

HOT = Watched(
    "GPU-0a81e2c3-ef55-50ce-2b39-fbf55580b530",
    22,
    {"sm_mhz": Spread(1410, 1425, 1980), "power_w": Spread(684, 684, 684)},
    {"sw_power_cap": 0.97, "sync_boost": 0.04},
    busy=9,
)
COOL = Watched(
    "GPU-0a81e2c3-ef55-50ce-2b39-fbf55580b530", 1, {"sm_mhz": Spread(1980, 1980, 1980)}, {}
)


def test_a_step_is_told_with_what_held_its_clocks() -> None:
    assert watched.sentence(HOT) == (
        "GPU-0a81e2c3: SM 1425 MHz (1410 to 1980), 684 W, held by sw_power_cap in 97%,"
        " busy in 9 of 22 samples"
    )
    assert watched.sentence(COOL) == "GPU-0a81e2c3: SM 1980 MHz, 1 sample"
    assert watched.sentence(replace(COOL, busy=0)).endswith("busy in none of 1 sample")


def test_a_run_is_told_by_its_steps_medians() -> None:
    jobs = [job("a", watched=(HOT,)), job("b", watched=(COOL,)), job("c")]

    assert watched.of_run(jobs) == (
        "while steps ran: SM 1980 MHz (1425 to 1980), 684 W, held by sw_power_cap in 1 of 2 steps"
    )
    assert watched.of_run([job("c")]) == ""


def test_a_step_on_two_gpus_is_one_step() -> None:
    jobs = [job("a", watched=(HOT, HOT)), job("b", watched=(HOT, COOL))]

    assert watched.of_run(jobs).endswith("held by sw_power_cap in 2 of 2 steps")


def test_the_report_has_the_line_beside_its_step_and_no_escape_of_a_host(tmp_path: Path) -> None:
    spoilt = replace(HOT, uuid="\x1b[31m<b>x")
    seen = history(job("a", watched=(HOT,)), job("b", watched=(spoilt,)))

    section = steps.section(replace(view(tmp_path), history=seen))

    assert section is not None
    assert "held by sw_power_cap in 97%, busy in 9 of 22 samples" in str(section.body)
    assert "<b>x" not in str(section.body)
    assert "\x1b" not in str(section.body)
