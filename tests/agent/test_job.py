"""One job to its proven end: states, deadlines, signals, trees, evidence, logs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from orchestrator.agent import oom
from tests.agent.job_runner import finish_job, run_job, start_job


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return state[0] != "Z"


def pid_in(log: str, name: str) -> int:
    return int(log.split(f"{name} ")[1].split()[0])


def wait_for(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"waited in vain for {path}"
        time.sleep(0.01)


class TestEnding:
    def test_zero_passes(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "echo out; echo err >&2")

        assert (ran.outcome.state, ran.outcome.exit_code, ran.outcome.signal) == ("passed", 0, None)
        assert ran.log == "out\nerr\n"
        assert ran.outcome.tail == ["out", "err"]
        assert ran.outcome.log_bytes == 8
        assert (ran.outcome.leftover, ran.outcome.survivors) == ([], [])

    def test_anything_else_fails(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "exit 3")

        assert (ran.outcome.state, ran.outcome.exit_code) == ("failed", 3)
        assert ran.outcome.reason == "exit code 3"

    @pytest.mark.parametrize("script", ["false; echo on", "false | true; echo on", "nope; echo on"])
    def test_the_first_failure_ends_a_script(self, tmp_path: Path, script: str) -> None:
        ran = run_job(tmp_path, script)

        assert ran.outcome.state == "failed"
        assert "on\n" not in ran.log

    @pytest.mark.parametrize(
        ("how", "name"), [("SEGV", "SEGV"), ("KILL", "KILL"), ("ABRT", "ABRT"), ("40", "RTMIN+6")]
    )
    def test_a_signal_is_named(self, tmp_path: Path, how: str, name: str) -> None:
        ran = run_job(tmp_path, f"kill -{how} $$")

        assert (ran.outcome.state, ran.outcome.signal) == ("failed", name)
        assert ran.outcome.exit_code is None
        assert ran.outcome.reason == f"killed by signal {name}"

    def test_a_program_with_arguments_needs_no_shell(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, ["printf", "%s|", "two words", "$HOME", "'"])

        assert ran.log == "two words|$HOME|'|"

    def test_one_that_does_not_exist_cannot_start(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, ["no-such-program"])

        assert ran.outcome.state == "failed"
        assert ran.outcome.reason.startswith("cannot start: ")
        assert "no-such-program" in ran.log
        assert (ran.outcome.exit_code, ran.outcome.signal) == (None, None)

    def test_the_working_directory_is_the_tree(self, tmp_path: Path) -> None:
        assert run_job(tmp_path, "pwd").log == f"{tmp_path}/work\n"

    def test_start_up_files_of_the_user_are_not_read(self, tmp_path: Path) -> None:
        (tmp_path / ".bashrc").write_text("echo from bashrc\n", "ascii")

        ran = run_job(
            tmp_path,
            "echo step",
            env={"HOME": str(tmp_path), "SSH_CLIENT": "1 2 3", "SSH_CONNECTION": "1 2 3 4"},
        )

        assert ran.log == "step\n"

    def test_signals_and_standard_input_are_as_in_a_fresh_shell(self, tmp_path: Path) -> None:
        script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; cat"

        ran = run_job(tmp_path, script, deaf_to=["QUIT", "USR1", "PIPE"])

        assert ran.log == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"

    def test_no_file_of_the_supervisor_stays_open_in_it(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "ls /proc/self/fd | tr '\\n' ' '")

        assert ran.log.split() == ["0", "1", "2", "3"], "and 3 is the directory itself"


class TestDeadline:
    def test_is_kept_and_told(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "echo begun; sleep 60", timeout_s=0.5)

        assert (ran.outcome.state, ran.outcome.reason) == ("timed_out", "ran longer than 0.5 s")
        assert ran.log == "begun\n[orch] the deadline of 0.5 s has passed\n"
        assert ran.outcome.duration_s >= 0.5
        assert ran.took_s < 10

    def test_the_stop_signal_comes_first_and_its_output_is_kept(self, tmp_path: Path) -> None:
        script = "trap 'echo cleaning up; exit 0' TERM; echo begun; while :; do sleep 0.05; done"

        ran = run_job(tmp_path, script, timeout_s=0.4)

        assert ran.outcome.state == "timed_out"
        assert ran.log.endswith("cleaning up\n")

    def test_the_chosen_signal_is_the_one_that_is_sent(self, tmp_path: Path) -> None:
        script = "trap 'echo got INT; exit 0' INT; while :; do sleep 0.05; done"

        ran = run_job(tmp_path, script, timeout_s=0.4, signal="INT")

        assert ran.log.endswith("got INT\n")

    def test_who_ignores_it_is_killed_after_the_grace(self, tmp_path: Path) -> None:
        ran = run_job(
            tmp_path,
            "trap '' TERM; echo pid $$; while :; do sleep 0.05; done",
            timeout_s=0.4,
            grace_s=0.3,
        )

        assert ran.outcome.state == "timed_out"
        assert not is_running(pid_in(ran.log, "pid"))
        assert 0.3 <= ran.outcome.kill_s < 8

    def test_no_grace_is_no_grace(self, tmp_path: Path) -> None:
        ran = run_job(
            tmp_path, "trap '' TERM; while :; do sleep 0.05; done", timeout_s=0.3, grace_s=0.0
        )

        assert ran.outcome.kill_s < 2

    def test_a_stopped_process_is_woken_to_end(self, tmp_path: Path) -> None:
        script = "trap 'echo woken; exit 0' TERM; echo pid $$; kill -STOP $$; echo on; sleep 60"

        ran = run_job(tmp_path, script, timeout_s=0.5)

        assert "woken\n" in ran.log
        assert not is_running(pid_in(ran.log, "pid"))

    def test_a_flood_of_output_does_not_put_it_off(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "yes", timeout_s=0.5, grace_s=0.5, log_limit_bytes=100_000)

        assert ran.outcome.state == "timed_out"
        assert ran.took_s < 10
        assert (tmp_path / "log").stat().st_size < 110_000
        assert "bytes left out here" in ran.log
        assert ran.outcome.log_bytes > 1_000_000

    def test_a_process_that_closed_its_output_is_still_waited_for(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "echo before; exec >&- 2>&-; sleep 0.5; exit 4")

        assert (ran.outcome.state, ran.outcome.exit_code) == ("failed", 4)
        assert ran.outcome.duration_s >= 0.5
        assert ran.log == "before\n"

    def test_and_its_deadline_holds(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "exec >&- 2>&-; sleep 60", timeout_s=0.4)

        assert ran.outcome.state == "timed_out"


class TestTheWholeTree:
    ESCAPE = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print("escaped", os.getpid(), flush=True)
{extra}
time.sleep(60)
"""

    def script(self, extra: str = "") -> str:
        program = self.ESCAPE.format(extra=extra)
        return f"python3 -S - <<'END'\n{program}\nEND\n"

    def test_what_a_passing_step_left_behind_is_ended_and_named(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, self.script() + "sleep 0.3; echo done")

        assert ran.outcome.state == "passed"
        assert ran.outcome.leftover == ["python3"]
        assert not is_running(pid_in(ran.log, "escaped"))

    def test_what_escaped_dies_at_the_deadline(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, self.script() + "sleep 60", timeout_s=1.0)

        assert ran.outcome.state == "timed_out"
        assert not is_running(pid_in(ran.log, "escaped"))

    def test_even_when_it_ignores_everything_and_starts_others(self, tmp_path: Path) -> None:
        extra = """
import signal, subprocess
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    subprocess.Popen(["sleep", "50.125"], start_new_session=True)
    time.sleep(0.02)
"""
        ran = run_job(tmp_path, self.script(extra) + "sleep 60", timeout_s=1.0, grace_s=0.2)

        assert ran.outcome.survivors == []
        assert [p for p in Path("/proc").glob("[0-9]*/cmdline") if holds(p, b"50.125")] == []

    def test_output_of_children_comes_as_long_as_they_may_write(self, tmp_path: Path) -> None:
        script = """
bash -c 'trap "echo child ends; exit" TERM; echo child begins; while :; do sleep 0.05; done' &
sleep 0.3
echo leader ends
"""
        ran = run_job(tmp_path, script)

        assert ran.outcome.state == "passed"
        assert ran.log.startswith("child begins\nleader ends\n")
        assert ran.log.endswith("child ends\n")
        assert "bash" in ran.outcome.leftover

    def test_a_stranger_is_neither_killed_nor_waited_for(self, tmp_path: Path) -> None:
        stranger = tmp_path / "stranger"
        before = f"echo $$ > {stranger}; exec sleep 30"

        ran = run_job(tmp_path, f"while [ ! -e {stranger} ]; do sleep 0.01; done", before=before)

        pid = int(stranger.read_text("ascii"))
        try:
            assert ran.outcome.state == "passed"
            assert ran.outcome.leftover == []
            assert ran.took_s < 5
            assert is_running(pid)
        finally:
            os.kill(pid, signal.SIGKILL)

    def test_a_killed_supervisor_takes_the_leader_along(self, tmp_path: Path) -> None:
        written = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid"
        runner = start_job(tmp_path, f"{written}; exec sleep 60")
        wait_for(tmp_path / "pid")
        pid = int((tmp_path / "pid").read_text("ascii"))

        runner.kill()
        runner.wait(30)

        end = time.monotonic() + 10
        while is_running(pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert not is_running(pid)
        assert runner.stdout is not None
        assert runner.stderr is not None
        runner.stdout.close()
        runner.stderr.close()


def holds(path: Path, text: bytes) -> bool:
    try:
        return text in path.read_bytes()
    except OSError:
        return False


class TestCancelling:
    def test_ends_the_job_like_a_deadline_but_is_called_otherwise(self, tmp_path: Path) -> None:
        order = tmp_path / "cancel"
        runner = start_job(
            tmp_path,
            f"trap 'echo bye; exit 0' TERM; touch {tmp_path}/begun; while :; do sleep 0.05; done",
            cancel_when=str(order),
        )
        wait_for(tmp_path / "begun")
        order.touch()
        os.kill(runner.pid, signal.SIGTERM)

        ran = finish_job(runner, tmp_path)

        assert (ran.outcome.state, ran.outcome.reason) == ("cancelled", "the run was cancelled")
        assert ran.log.endswith("bye\n")


HANG = """
import threading, time
def wait_in_a_thread(event):
    event.wait(60)
def the_hanging_function():
    threading.Thread(target=wait_in_a_thread, args=(threading.Event(),), daemon=True).start()
    time.sleep(60)
the_hanging_function()
"""


class TestEvidence:
    def test_the_stacks_of_all_threads_are_in_the_log_before_the_end(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "hang.py").write_text(HANG, "ascii")

        ran = run_job(tmp_path, "python3 hang.py", timeout_s=1.5)

        assert ran.outcome.stacks == 1
        assert "in the_hanging_function" in ran.log
        assert "in wait_in_a_thread" in ran.log

    def test_of_every_python_process_of_the_tree(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "hang.py").write_text(HANG, "ascii")

        ran = run_job(tmp_path, "python3 hang.py & python3 hang.py & wait", timeout_s=1.5)

        assert ran.outcome.stacks == 2
        assert ran.log.count("in the_hanging_function") == 2

    def test_other_programs_are_not_disturbed(self, tmp_path: Path) -> None:
        """The signal would kill a program that has no handler for it."""
        script = "trap 'echo asked to end; exit 0' TERM; while :; do sleep 0.05; done"

        ran = run_job(tmp_path, script, timeout_s=0.4)

        assert ran.outcome.stacks == 0
        assert ran.log.endswith("asked to end\n")

    def test_the_state_of_the_gpus_is_in_the_log(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "sleep 60", timeout_s=0.3, gpu_state="GPU 0 H200: 100 % busy\n")

        assert "state of the GPUs:\n" in ran.log
        assert "GPU 0 H200: 100 % busy\n" in ran.log

    def test_a_half_line_is_ended_before_ours(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "printf 'progress 50 %%'; sleep 60", timeout_s=0.4)

        assert ran.log.startswith("progress 50 %\n[orch")


class TestOutOfMemory:
    @pytest.mark.parametrize("script", ["kill -9 $$", "bash -c 'kill -9 $$' || exit 137; echo x"])
    @pytest.mark.parametrize(
        ("counts", "mark"), [((3, 4), True), ((3, 3), False), ((None, 4), None), ((3, None), None)]
    )
    def test_is_marked_when_the_kernel_says_so_and_unknown_when_it_says_nothing(
        self,
        tmp_path: Path,
        script: str,
        counts: tuple[int | None, int | None],
        mark: bool | None,
    ) -> None:
        ran = run_job(tmp_path, script, oom_counts=counts)

        assert ran.outcome.state == "failed"
        assert ran.outcome.out_of_memory is mark

    def test_other_ends_are_not_asked_about(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "exit 1", oom_counts=[3, 4])

        assert ran.outcome.out_of_memory is None

    def test_a_deadline_that_killed_is_no_lack_of_memory(self, tmp_path: Path) -> None:
        ran = run_job(
            tmp_path, "trap '' TERM; sleep 60", timeout_s=0.3, grace_s=0.0, oom_counts=[3, 4]
        )

        assert ran.outcome.out_of_memory is None

    def test_the_kernels_own_count_is_read(self, tmp_path: Path) -> None:
        count = oom.kills()

        assert count is None or count >= 0


class TestSecrets:
    def test_are_masked_wherever_the_pipe_cuts_them(self, tmp_path: Path) -> None:
        script = "printf 'it is hunter'; sleep 0.2; echo 2-secret; echo hunter2-secret >&2"

        ran = run_job(tmp_path, script, secrets=["hunter2-secret"])

        assert ran.log == "it is [secret]\n[secret]\n"
        assert ran.outcome.tail == ["it is [secret]", "[secret]"]

    def test_a_program_that_cannot_start_does_not_show_them(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, ["hunter2-secret/x"], secrets=["hunter2-secret"])

        assert "hunter2-secret" not in ran.log
        assert "hunter2-secret" not in ran.outcome.reason


class TestTrouble:
    def test_a_log_that_cannot_be_written_does_not_stop_the_step(self, tmp_path: Path) -> None:
        (tmp_path / "log").symlink_to("/dev/full")

        ran = run_job(tmp_path, "echo lost; touch ran; exit 3")

        assert (ran.outcome.state, ran.outcome.exit_code) == ("failed", 3)
        assert (tmp_path / "work/ran").exists()
        assert ran.outcome.log_problem == "No space left on device"
        assert ran.outcome.tail == ["lost"]

    def test_trouble_of_ours_leaves_no_process_behind(self, tmp_path: Path) -> None:
        ran = run_job(tmp_path, "echo output; sleep 60 & sleep 60", log_fails="the disk burns")

        assert ran.outcome.state == "broken: the disk burns"
        assert ran.outcome.leftover == []
