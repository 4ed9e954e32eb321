from __future__ import annotations

from pathlib import Path

import pytest

from preflight.config import ConfigError, load_config
from preflight.engine import Options, Scope, run
from preflight.finding import Severity
from preflight.rule import registry
from preflight.rules import MODULES

BAD = 'import torch\n\ntorch.set_default_device("cuda")\n'


def test_findings_are_sorted_and_carry_the_rule_s_words(lint) -> None:  # type: ignore[no-untyped-def]
    report = lint({"b.py": BAD, "a.py": BAD})

    assert [f.path for f in report.findings] == ["a.py", "b.py"]
    card = registry()["default-device-set"].card
    assert report.findings[0].consequence == card.consequence
    assert report.blocking(strict=False) == report.findings


def test_identity_survives_a_move_and_tells_equal_lines_apart(lint) -> None:  # type: ignore[no-untyped-def]
    line = 'torch.set_default_device("cuda")\n'
    first = lint({"a.py": f"import torch\n{line}{line}"}).findings
    moved = lint({"a.py": f"import torch\n\n\n{line}x = 1\n{line}"}).findings

    assert len({f.id for f in first}) == 2
    assert {f.id for f in first} == {f.id for f in moved}


def test_severity_can_be_overridden(lint) -> None:  # type: ignore[no-untyped-def]
    table = '[tool.preflight.severity]\ndefault-device-set = "warning"\n'
    report = lint({"a.py": BAD, "pyproject.toml": table})

    assert report.findings[0].severity is Severity.WARNING
    assert report.blocking(strict=False) == ()
    assert len(report.blocking(strict=True)) == 1


def test_per_file_ignores_by_group(lint) -> None:  # type: ignore[no-untyped-def]
    table = '[tool.preflight.per-file]\n"old/*" = ["DEV"]\n'
    report = lint({"old/a.py": BAD, "new/a.py": BAD, "pyproject.toml": table})

    assert [f.path for f in report.findings] == ["new/a.py"]


def test_excluded_file_is_not_linted_even_when_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.preflight]\nexclude = ["gen/*"]\n', "utf-8")
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen" / "a.py").write_text(BAD, "utf-8")

    report = run([tmp_path / "gen" / "a.py"], load_config(tmp_path), Options(cache=False))

    assert report.files == 0


def test_unknown_rule_in_a_selection_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no rule `default-device`; did you mean `default-dev"):
        run([tmp_path], load_config(tmp_path), Options(select=("default-device",)))


def test_files_scope_leaves_cross_file_rules_and_their_suppressions_alone(lint) -> None:  # type: ignore[no-untyped-def]
    files = {
        "exp.yaml": "# preflight: ignore[no-expected-values] -- looks around\nexperiment: exp\n"
        "timeout: 1m\nsteps:\n  - {id: a, run: 'true'}\n"
    }

    everything = lint(files)
    narrow = lint(files, scope=Scope.FILES)

    assert [s.finding.rule for s in everything.suppressed] == ["no-expected-values"]
    assert everything.findings == narrow.findings == ()


def test_repo_scope_reports_cross_file_rules_and_suppressions_only(lint) -> None:  # type: ignore[no-untyped-def]
    files = {
        "a.py": BAD + "x = 1  # preflight: ignore[user-path] -- old\n",
        "exp.yaml": "experiment: exp\ntimeout: 1m\nsteps:\n  - {id: a, run: 'true'}\n",
    }

    report = lint(files, scope=Scope.REPO)

    assert [f.rule for f in report.findings] == ["unused-suppression", "no-expected-values"]


def test_parallel_run_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preflight.engine.PARALLEL_FROM_BYTES", 0)
    for number in range(9):
        (tmp_path / f"{number}.py").write_text(BAD + f"x = {number}\n" * number, "utf-8")
    config = load_config(tmp_path)

    serial = run([tmp_path], config, Options(cache=False, jobs=1))
    parallel = run([tmp_path], config, Options(cache=False, jobs=2))

    assert serial.findings == parallel.findings
    assert len(parallel.findings) == 9


def test_unparsed_cuda_functions_are_counted_and_not_reported_from(lint) -> None:  # type: ignore[no-untyped-def]
    broken = '__global__ void k() {\n  if (x ( {\n  asm volatile("bar.sync 16, 128;");\n}\n'
    report = lint({"a.cu": broken})

    assert report.findings == ()
    assert report.skipped_functions >= 1


def test_every_rule_module_is_in_the_catalogue() -> None:
    folder = Path(__file__).resolve().parents[2] / "preflight" / "rules"
    on_disk = {
        f"{file.parent.name}.{file.stem}"
        for file in folder.glob("*/*.py")
        if "RULE = Rule(" in file.read_text("utf-8")
    }

    assert on_disk == set(MODULES)


def test_names_codes_and_words_of_rules() -> None:
    cards = [rule.card for rule in registry()]

    assert len({card.name for card in cards}) == len({card.code for card in cards}) == len(cards)
    for card in cards:
        assert card.name.replace("-", "").isalnum(), card.name
        assert not card.title.endswith("."), card.name
        for words in (card.consequence, card.help):
            assert len(words) > 15, card.name
            assert not words.endswith("."), card.name
