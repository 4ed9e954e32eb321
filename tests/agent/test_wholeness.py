"""A run that is home on the host, and whose bundle was lost or damaged there afterwards."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from orchestrator.agent import wholeness
from orchestrator.agent.frames import Data
from orchestrator.agent.layout import RunFolder
from orchestrator.store import unpack
from tests.agent.controller import RUN_ID, Controller, Heard, job, run
from tests.agent.test_follow import FILES, folder, is_whole
from tests.conftest import Project
from tests.link.reached import QUICK

RECORD = """echo '{"metric":"e2e","value":1.5}' >> $ORCH_RESULTS"""


WAYS = ["gone", "cut", "no facts", "half the facts", "overwritten", "other facts", "a directory"]


class TestABundleThatIsGone:
    """A run that has ended, and whose files on the host were touched afterwards."""

    @pytest.mark.parametrize("damage", WAYS)
    def test_it_is_made_anew_and_told(self, tmp_path: Path, damage: str) -> None:
        root = tmp_path / "root"
        whole = run(root, FILES, job("one", f"echo hi; {RECORD}"))
        hurt(folder(root), damage)

        heard = attach_soon(root, journal_at=len(whole.journal))

        assert is_whole(heard, tmp_path / "bundle.zip")
        assert members_of(tmp_path / "bundle.zip") == members_of(write(tmp_path, whole.bundle))
        told = [text for text in heard.notes("warning") if "made anew" in text]
        assert len(told) == (damage != "no facts")
        again = attach_soon(root)
        assert again.bundle == heard.bundle

    def test_any_damaged_byte_is_noticed(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        host = folder(root)
        size = Path(host.bundle).stat().st_size

        for place in [*range(0, size, 97), *range(size - 400, size)]:
            flip(Path(host.bundle), place)
            assert not wholeness.is_sound(host, lambda: None), place
            flip(Path(host.bundle), place)
        assert wholeness.is_sound(host, lambda: None)

    def test_one_that_is_asked_for_in_part_is_not_read_through(self, tmp_path: Path) -> None:
        """The controller checks what it got, and asks for all of it when that is damaged."""
        root = tmp_path / "root"
        whole = run(root, FILES, job("one", "echo hi"))
        flip(Path(folder(root).bundle), len(whole.bundle) // 2)

        part = attach_soon(root, bundle_at=20)
        heard = attach_soon(root)

        assert len(part.bundle) == len(whole.bundle) - 20
        assert is_whole(heard, tmp_path / "bundle.zip")

    def test_two_may_ask_for_it_at_once(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        hurt(folder(root), "gone")
        with Controller(root) as one, Controller(root) as other:
            for controller in (one, other):
                controller.hello("attach", run_id=RUN_ID)
            heard = [listen_soon(one), listen_soon(other)]

        assert all(is_whole(each, tmp_path / "bundle.zip") for each in heard)
        assert sum("made anew" in text for text in heard[0].notes("warning")) == 1

    def test_where_it_cannot_be_made_the_host_says_why(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        hurt(folder(root), "gone")
        Path(folder(root).plan).unlink()

        refused = attach_soon(root).message("refused")

        assert refused["code"] == "os"
        assert refused["text"] == f"No such file or directory: {folder(root).plan}"

    @pytest.mark.parametrize("damage", ["no facts", "longer", "flipped"])
    def test_it_is_not_removed_where_no_other_can_be_made(
        self, tmp_path: Path, damage: str
    ) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        host = folder(root)
        if damage == "no facts":
            Path(host.bundle_facts).unlink()
        elif damage == "longer":
            Path(host.bundle).write_bytes(Path(host.bundle).read_bytes() + b"x")
        else:
            flip(Path(host.bundle), 60)
        lines = Path(host.journal).read_bytes().splitlines(keepends=True)
        Path(host.journal).write_bytes(b"".join([lines[0], b"{]\n", *lines[1:]]))
        before = Path(host.bundle).read_bytes()

        refused = attach_soon(root).message("refused")

        assert refused["code"] == "damaged_run"
        assert Path(host.bundle).read_bytes() == before

    @pytest.mark.parametrize("plan", ["null", "[]", "{]", "[" * 100_000])
    def test_a_plan_that_is_none_is_told(self, tmp_path: Path, plan: str) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        hurt(folder(root), "gone")
        Path(folder(root).plan).write_text(plan)

        assert attach_soon(root).message("refused")["code"] == "damaged_run"

    def test_a_journal_without_its_last_word_holds_nobody_up(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        whole = run(root, FILES, job("one", "echo hi"))
        lines = whole.journal.splitlines(keepends=True)
        Path(folder(root).journal).write_bytes(b"".join(lines[:-1]))

        heard = attach_soon(root)

        assert heard.bundle == whole.bundle

    def test_nothing_comes_home_that_nobody_can_check_for_secrets(self, tmp_path: Path) -> None:
        root, place = tmp_path / "root", tmp_path / "bundle.zip"
        beside = 'echo "$TOKEN" > "$ORCH_OUT/../beside"; mkdir "$ORCH_OUT/../sub"'
        beside += '; mkdir -p "$ORCH_OUT/../../../environment/before/sub"'
        beside += '; echo "$TOKEN" > "$ORCH_OUT/../../../environment/before/sub/x"'
        beside += '; echo "$TOKEN" >> "$ORCH_OUT/../../../activation.log"'
        beside += '; echo "$TOKEN" > "$ORCH_OUT/../sub/f"'
        leak = f'{beside}; echo "$TOKEN" > $ORCH_OUT/x; echo fine > $ORCH_OUT/y; {RECORD}'
        secret = {"TOKEN": "hunter2-secret"}
        run(root, FILES, job("one", leak), job("two", "true"), secrets=secret)
        ordered = json.loads(Path(folder(root).plan).read_text("utf-8"))
        Path(folder(root).plan).write_text(json.dumps({**ordered, "secrets": ["TOKEN"]}), "utf-8")
        hurt(folder(root), "gone")
        Path(folder(root).inside("steps/one/out/late")).write_text("by nobody knows whom")
        with Path(folder(root).inside("steps/two/log")).open("a") as log:
            log.write("hunter2-secret")

        heard = attach_soon(root)

        assert is_whole(heard, place)
        names = members_of(place)
        assert {"steps/one/results.jsonl", "steps/one/out/y"} <= set(names)
        with zipfile.ZipFile(place) as archive:
            assert not [name for name in names if b"hunter2" in archive.read(name)]
        assert "steps/one/out/late" not in names
        told = " ".join(heard.notes("warning"))
        for name in ("steps/one/beside", "steps/one/out/late", "steps/one/out/x", "steps/two/log"):
            assert f"`{name}`" in told


class TestThroughTheCommand:
    """The bundle on the host is hurt while it is not home yet, or not any more."""

    @pytest.mark.parametrize("damage", ["gone", "cut", "overwritten"])
    def test_a_fetch_brings_it_home(self, project: Project, damage: str) -> None:
        run_id, host = ran(project)
        hurt(host, damage)
        (project.last_run / "bundle.zip").unlink()

        done = project.orch("fetch", run_id)

        assert done.code == 0, done.text
        assert "made anew" in done.text
        assert project.orch("verify", run_id).code == 0

    def test_what_cannot_be_the_bundle_is_not_called_home(self, project: Project) -> None:
        """A sweep of the host takes what is home."""
        run_id, host = ran(project)
        Path(host.sent_home).unlink()
        long = (project.last_run / "bundle.zip").read_bytes() + b"more than there is"
        (project.last_run / "bundle.zip").unlink()
        project.write(f"artifacts/{run_id}/bundle.zip.part", long[::-1])

        damaged = project.orch("fetch", run_id)
        was_home = Path(host.sent_home).exists()
        again = project.orch("fetch", run_id)

        assert damaged.code == 3, damaged.text
        assert not was_home
        assert again.code == 0, again.text

    def test_a_fetch_that_goes_on_in_a_damaged_one_leaves_the_run_on_the_host(
        self, project: Project
    ) -> None:
        """Its length is right; only who has checked every file may call it home."""
        run_id, host = ran(project)
        Path(host.sent_home).unlink()
        bundle = project.last_run / "bundle.zip"
        bundle.rename(project.last_run / "bundle.zip.part")
        os.truncate(project.last_run / "bundle.zip.part", 300)
        flip(Path(host.bundle), Path(host.bundle).stat().st_size // 2)

        damaged = project.orch("fetch", run_id)
        swept = project.orch("gc", "--host", "local", "--older-than", "1ms")
        again = project.orch("fetch", run_id)

        assert damaged.code == 3, damaged.text
        assert f"kept {run_id}: never brought home" in swept.out
        assert again.code == 0, again.text


def ran(project: Project) -> tuple[str, RunFolder]:
    """A run that came home and whose evidence is gone since; its id, and its place on the host."""
    project.write("quick.yaml", QUICK)
    assert project.orch("run", "quick.yaml").code == 0
    shutil.rmtree(project.last_run / "evidence")
    run_id = project.last_run.name
    return run_id, RunFolder(str(project.home / ".orch" / "runs" / run_id))


def hurt(host: RunFolder, damage: str) -> None:
    if damage == "gone":
        Path(host.bundle).unlink()
    elif damage == "cut":
        halve(Path(host.bundle))
    elif damage == "no facts":
        Path(host.bundle).unlink()
        Path(host.bundle_facts).unlink()
    elif damage == "overwritten":
        flip(Path(host.bundle), 60)
    elif damage == "other facts":
        facts = json.loads(Path(host.bundle_facts).read_bytes())
        Path(host.bundle_facts).write_text(json.dumps({**facts, "manifest_sha256": "0" * 64}))
    elif damage == "a directory":
        Path(host.bundle).unlink()
        Path(host.bundle, "inside").mkdir(parents=True)
    elif damage == "half the facts":
        halve(Path(host.bundle_facts))


def flip(path: Path, place: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def attach_soon(root: Path, **more: int) -> Heard:
    with Controller(root) as controller:
        controller.hello("attach", run_id=RUN_ID, **more)
        return listen_soon(controller)


def listen_soon(controller: Controller) -> Heard:
    """All until a good-bye or a refusal; an agent that only says that it lives is not listened to.

    An agent beats every 5 s, and a run that has ended takes no second to come home.
    """
    heard = Heard()
    while not heard.messages or heard.messages[-1]["type"] not in ("bye", "refused"):
        frame = controller.next()
        if not isinstance(frame, Data):
            heard.messages.append(frame)
            if frame["type"] == "bundle_end":
                controller.tell("home")
        elif frame.stream == "journal":
            heard.journal += frame.body
        else:
            heard.bundle += frame.body
        kinds = [message["type"] for message in heard.messages]
        assert kinds.count("beat") < 4, kinds
        assert kinds.count("host_lost") < 4, kinds
    return heard


def write(folder: Path, bundle: bytes) -> Path:
    path = folder / "before.zip"
    path.write_bytes(bundle)
    return path


def members_of(bundle: Path) -> set[str]:
    return {member.path for member in unpack.check_members(bundle).members}
