"""One round of an experiment over a slow link: `orch run` against rsync and ssh, in the same run.

    python benchmarks/roundtrip.py [--rounds 5] [--only tree|noop|artifact]

Three questions, each answered with a ratio against a peer measured beside it:

- the tree: 2,000 files and 75 MB over 50 ms of round trip and 100 Mbit/s, cold, unchanged and with
  one file changed; the same job by `orch run`, by `orch run` with `keep_open`, by a script of
  `rsync -az --delete`, `ssh`, `rsync` back, and by that script with a ControlMaster. The variants
  take turns.
- no-op steps: 500 of them, against starting the same process 500 times.
- a 300 MB artifact that does not compress, against scp on the same loopback connection, with the
  memory of both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.hosts import slowlink, sshd  # noqa: E402 - the repository is not installed

FILES = 2_000
TREE_BYTES = 75_000_000
ROUND_TRIP_S = 0.050
BITS_PER_S = 100e6
NOOP_STEPS = 500
ARTIFACT_BYTES = 300_000_000
DEADLINE_S = 300

EXPERIMENT = """
experiment: roundtrip
kind: probe
timeout: 60s
steps:
  - id: job
    run: mkdir -p out && ls -R . | wc -l > out/result.txt
    collect: ["out/*.txt"]
"""


@dataclass
class Scene:
    """A project, a server behind a slow link, and what both variants need to reach it."""

    folder: Path
    project: Path
    server: sshd.SshServer
    link: slowlink.SlowLink
    env: dict[str, str] = field(default_factory=dict)

    @property
    def remote(self) -> Path:
        return self.folder / "remote"


@contextlib.contextmanager
def scene(*, slow: bool) -> Iterator[Scene]:
    folder = Path(tempfile.mkdtemp(prefix="orch-roundtrip-"))
    try:
        with sshd.running(folder / "sshd") as server, contextlib.ExitStack() as stack:
            rate = BITS_PER_S if slow else 1e12
            trip = ROUND_TRIP_S if slow else 0.0
            link = stack.enter_context(
                slowlink.running(server.port, round_trip_s=trip, bits_per_s=rate)
            )
            port = link.port if slow else server.port
            config = server.config.read_text("utf-8").replace(f"Port {server.port}", f"Port {port}")
            server.config.write_text(config, "utf-8")
            server.known_hosts.write_text(f"[127.0.0.1]:{port} {server.host_public_key}\n", "ascii")
            project = folder / "project"
            project.mkdir()
            (folder / "remote").mkdir()
            env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder / "home")}
            (folder / "home").mkdir()
            yield Scene(folder, project, server, link, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_tree(project: Path) -> None:
    """Files like those of a code base: words, repeated often, in sizes that vary."""
    source = random.Random(1)
    words = [f"{source.choice('abcdefgh')}{source.getrandbits(24):x}" for _ in range(3000)]
    per_file = TREE_BYTES // FILES
    for number in range(FILES):
        size = int(per_file * source.choice((0.2, 0.5, 1.0, 1.0, 2.3)))
        lines = []
        length = 0
        while length < size:
            line = " ".join(source.choices(words, k=9))
            lines.append(line)
            length += len(line) + 1
        path = project / f"dir{number % 40}" / f"file{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines), "ascii")
    (project / "exp.yaml").write_text(EXPERIMENT, "ascii")


def git(project: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=b", "-c", "user.email=b@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=project, check=True, timeout=DEADLINE_S)


def timed(action: Callable[[], object]) -> float:
    # What the variant before left to the disk must not slow this one down.
    os.sync()
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


# ---- the variants


def orch(place: Scene, *, root: str, kept: bool = False) -> None:
    # Named, as the guide advises: a `python3` that is a pyenv shim takes 0.1 s before it starts.
    interpreter = os.path.realpath(sys.executable)
    more = {"agent_python": interpreter, "python": interpreter}
    if kept:
        more["keep_open"] = "10m"
    hosts = place.server.hosts_yaml("far", "ssh", root=place.remote / root, **more)
    path = place.project / "hosts.yaml"
    if not path.exists() or path.read_text("utf-8") != hosts:
        path.write_text(hosts, "utf-8")
    program = "from orchestrator.cli import main; main()"
    command = [sys.executable, "-c", program, "run", "exp.yaml", "--host", "far", "--plain"]
    done = subprocess.run(
        command,
        cwd=place.project,
        env=place.env,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stdout.decode() + done.stderr.decode())


def script(place: Scene, *, root: str, master: bool) -> None:
    """What people write instead: three commands, each of which logs in."""
    options = ["-F", str(place.server.config)]
    if master:
        control = place.folder / "control"
        options += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-S", str(control)]
    shell = " ".join(["ssh", *options])
    there = place.remote / root
    keep = ["--exclude=.git", "--exclude=artifacts"]
    job = f"cd {there} && mkdir -p out && ls -R . | wc -l > out/result.txt"
    back = place.folder / f"back-{root}"
    for command in (
        ["rsync", "-az", "--delete", *keep, "-e", shell, f"{place.project}/", f"testhost:{there}/"],
        ["ssh", *options, "testhost", job],
        ["rsync", "-az", "-e", shell, f"testhost:{there}/out/", f"{back}/"],
    ):
        subprocess.run(command, env=place.env, check=True, timeout=DEADLINE_S)
    if master:
        end = ["ssh", *options, "-O", "exit", "testhost"]
        subprocess.run(end, env=place.env, check=False, capture_output=True, timeout=DEADLINE_S)


# ---- the questions


def measure_tree(rounds: int) -> None:
    variants: dict[str, Callable[[Scene, str], None]] = {
        "orch": lambda place, root: orch(place, root=root),
        "kept": lambda place, root: orch(place, root=root, kept=True),
        "plain": lambda place, root: script(place, root=root, master=False),
        "master": lambda place, root: script(place, root=root, master=True),
    }
    samples: dict[tuple[str, str], list[float]] = {}
    with scene(slow=True) as place:
        make_tree(place.project)
        git(place.project, "init", "-q")
        git(place.project, "add", "-A")
        git(place.project, "commit", "-q", "-m", "tree")
        names = list(variants)
        for number in range(rounds):
            # In turns: whoever comes first meets what is left of removing the round before.
            for name in (*names[number % 4 :], *names[: number % 4]):
                run = variants[name]
                root = f"{name}-{number}"
                samples.setdefault(("cold", name), []).append(timed(partial(run, place, root)))
                wait_for_what_goes_on(place, name, root)
                samples.setdefault(("unchanged", name), []).append(timed(partial(run, place, root)))
                wait_for_what_goes_on(place, name, root)
                changed = place.project / "dir3" / "file3.py"
                changed.write_text(changed.read_text("ascii") + f"\n# {number} {name}\n", "ascii")
                samples.setdefault(("one changed", name), []).append(
                    timed(partial(run, place, root))
                )
                wait_for_what_goes_on(place, name, root)
                close_courier(place, name)
                print(f"round {number}: {name} done", flush=True)
            for name in variants:
                shutil.rmtree(place.remote / f"{name}-{number}")
    print("\nseconds, median (min .. max); tree of 2,000 files and 75 MB, 50 ms, 100 Mbit/s")
    for what in ("cold", "unchanged", "one changed"):
        medians = {}
        for name in variants:
            found = samples[what, name]
            medians[name] = statistics.median(found)
            print(
                f"  {what:12} {name:7} {medians[name]:6.2f} ({min(found):.2f} .. {max(found):.2f})"
            )
        for name in ("orch", "kept"):
            print(
                f"  {what:12} {name} / plain {medians[name] / medians['plain']:.2f}, "
                f"{name} / ControlMaster {medians[name] / medians['master']:.2f}"
            )


def wait_for_what_goes_on(place: Scene, name: str, root: str) -> None:
    """What a run leaves going: a spare checkout there, the kept connection here.

    People take longer than that between two runs, and two cores would share it with the next one.
    """
    if name not in ("orch", "kept"):
        return
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.1)
        spares = place.remote / root / "spares"
        names = [path.name for path in spares.iterdir()] if spares.exists() else []
        has_spare = bool(names) and not any(name.startswith(".") for name in names)
        cache = place.folder / "home" / ".cache" / "orch"
        if has_spare and (name == "orch" or list(cache.glob("*.sock"))):
            # Behind its socket the courier still logs in and starts an agent.
            time.sleep(0 if name == "orch" else 2.0)
            return
    raise SystemExit(f"{name}: no spare checkout, or no courier, after 20 s")


def close_courier(place: Scene, name: str) -> None:
    if name == "kept":
        program = "from orchestrator.cli import main; main()"
        command = [sys.executable, "-c", program, "hosts", "close", "far"]
        subprocess.run(
            command,
            cwd=place.project,
            env=place.env,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=DEADLINE_S,
        )


def measure_noop() -> None:
    with scene(slow=False) as place:
        numbers = ", ".join(str(n) for n in range(NOOP_STEPS))
        text = (
            "experiment: noop\nkind: probe\ntimeout: 60s\nsteps:\n"
            f"  - id: noop\n    run: ['true']\n    matrix: {{n: [{numbers}]}}\n"
        )
        (place.project / "exp.yaml").write_text(text, "ascii")
        git(place.project, "init", "-q")
        orch(place, root="noop")
        run = next((place.project / "artifacts").glob("*/evidence/journal.jsonl"))
        events = [json.loads(line) for line in run.read_text("utf-8").splitlines()]
        begun = [e["elapsed_s"] for e in events if e["event"] == "step_started"]
        ended = [e["elapsed_s"] for e in events if e["event"] == "step_ended"]
        each = (ended[-1] - begun[0]) / NOOP_STEPS
    bare = timed(start_bare_processes)
    bare_each = bare / NOOP_STEPS
    print(
        f"\n{NOOP_STEPS} no-op steps: {each * 1000:.1f} ms each, process start "
        f"{bare_each * 1000:.1f} ms, above it {(each - bare_each) * 1000:.1f} ms"
    )


def start_bare_processes() -> None:
    for _ in range(NOOP_STEPS):
        subprocess.run(["true"], check=True)


def measure_artifact(rounds: int) -> None:
    rates: dict[str, list[float]] = {"scp": [], "orch": [], "orch with bundling": []}
    memory: list[tuple[float, float]] = []
    with scene(slow=False) as place:
        text = (
            "experiment: artifact\nkind: probe\ntimeout: 60s\nsteps:\n  - id: make\n"
            f"    run: head -c {ARTIFACT_BYTES} /dev/urandom > $ORCH_OUT/artifact.bin\n"
        )
        (place.project / "exp.yaml").write_text(text, "ascii")
        git(place.project, "init", "-q")
        blob = place.folder / "blob.bin"
        with blob.open("wb") as file:
            for _ in range(ARTIFACT_BYTES // 1_000_000):
                file.write(os.urandom(1_000_000))
        for _ in range(rounds):
            copy = ["scp", "-q", "-F", str(place.server.config)]
            target = place.folder / "copy.bin"
            fetch = [*copy, f"testhost:{blob}", str(target)]
            took = timed(partial(subprocess.run, fetch, check=True, timeout=DEADLINE_S))
            rates["scp"].append(ARTIFACT_BYTES / took / 1e6)
            target.unlink()
            transfer_s, whole_s, peaks = fetch_artifact(place)
            rates["orch"].append(ARTIFACT_BYTES / transfer_s / 1e6)
            rates["orch with bundling"].append(ARTIFACT_BYTES / whole_s / 1e6)
            memory.append(peaks)
    print("\n300 MB artifact over loopback, MB/s, median (min .. max)")
    for name, found in rates.items():
        print(f"  {name:20} {statistics.median(found):6.0f} ({min(found):.0f} .. {max(found):.0f})")
    for name in ("orch", "orch with bundling"):
        ratio = statistics.median(rates[name]) / statistics.median(rates["scp"])
        print(f"  {name} / scp: {ratio:.2f}")
    controller, agent = (max(pair[i] for pair in memory) for i in (0, 1))
    print(f"  peak memory: controller {controller:.0f} MB, agent {agent:.0f} MB")


def fetch_artifact(place: Scene) -> tuple[float, float, tuple[float, float]]:
    """Seconds from the first to the last byte of the bundle, from the step's end to the verdict,
    and the peak memory of the controller and of the largest agent process in MB."""
    hosts = place.server.hosts_yaml("far", "ssh", root=place.remote / "artifact")
    (place.project / "hosts.yaml").write_text(hosts, "utf-8")
    program = "from orchestrator.cli import main; main()"
    os.sync()
    process = subprocess.Popen(
        [sys.executable, "-c", program, "run", "exp.yaml", "--host", "far", "--json"],
        cwd=place.project,
        env=place.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = last = step_ended = 0.0
    agent_peak = 0.0
    for line in process.stdout:
        message = json.loads(line)
        now = time.perf_counter()
        if message["type"] == "receiving":
            first = first or now
            last = now
            if not agent_peak and message["done_bytes"] > 0.8 * ARTIFACT_BYTES:
                # Once only: looking through /proc takes time from what is being measured.
                agent_peak = agent_memory_mb()
        elif message["type"] == "event" and message["event"]["event"] == "step_ended":
            step_ended = now
    process.wait(timeout=DEADLINE_S)
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    shutil.rmtree(place.project / "artifacts")
    return last - first, ended - step_ended, (peak, agent_peak)


def agent_memory_mb() -> float:
    """The largest resident peak of a process that runs an agent's receiver."""
    peak = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"b64decode" not in (path / "cmdline").read_bytes():
                continue
            for line in (path / "status").read_text("ascii", "replace").splitlines():
                if line.startswith("VmHWM:"):
                    peak = max(peak, int(line.split()[1]) / 1024)
        except OSError:
            continue
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("tree", "noop", "artifact"))
    chosen = parser.parse_args()
    if sshd.find_sshd() is None or shutil.which("rsync") is None:
        raise SystemExit("needs sshd and rsync on this machine")
    if chosen.only in (None, "tree"):
        measure_tree(chosen.rounds)
    if chosen.only in (None, "noop"):
        measure_noop()
    if chosen.only in (None, "artifact"):
        measure_artifact(chosen.rounds)


if __name__ == "__main__":
    main()
