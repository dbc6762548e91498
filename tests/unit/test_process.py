"""Children: what they see of us, what we keep of them, and that none outlives its time."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from patchset import process
from patchset.errors import MissingTool


def python(program: str, cwd: Path, **more: object) -> process.Finished:
    return process.run(
        [sys.executable, "-I", "-c", program], cwd=cwd, env=process.clean_environment(), **{"timeout": 60, **more}
    )  # type: ignore[arg-type]


def test_streams_status_and_stdin_come_through(tmp_path: Path) -> None:
    ended = python(
        "import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr); sys.exit(7)", tmp_path, stdin=b"in"
    )
    assert (ended.stdout, ended.stderr, ended.returncode, ended.timed_out) == (b"IN\n", b"e\n", 7, False)
    assert ended.tail(1) == "e"


def test_death_by_signal_is_a_negative_status(tmp_path: Path) -> None:
    assert python("import os; os.kill(os.getpid(), 9)", tmp_path).returncode == -signal.SIGKILL


def test_child_past_its_time_is_killed_with_its_own_children(tmp_path: Path) -> None:
    """The grandchild holds a lock on a file for as long as it lives."""
    program = (
        "import subprocess, sys, time\n"
        'held = \'import fcntl, time; f = open("lock", "w"); fcntl.flock(f, 2); time.sleep(600)\'\n'
        "subprocess.Popen([sys.executable, '-c', held])\n"
        "time.sleep(600)"
    )
    ended = python(program, tmp_path, timeout=3)
    assert (ended.timed_out, ended.returncode) == (True, -signal.SIGKILL)
    import fcntl

    with open(tmp_path / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # would wait for ten minutes if it were still there


def test_interrupt_of_ours_kills_the_child(tmp_path: Path) -> None:
    ours = threading.Event()

    def interrupt() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            ours.wait(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest-xdist's processes ignore it
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            python("import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)", tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_log_keeps_both_streams_in_order(tmp_path: Path) -> None:
    ended = python(
        "import os; os.write(1, b'one\\n'); os.write(2, b'two\\n'); os.write(1, b'three\\n')",
        tmp_path,
        log=tmp_path / "log",
    )
    assert (tmp_path / "log").read_bytes() == ended.stdout == b"one\ntwo\nthree\n"


def test_only_the_end_of_a_flood_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 10)
    assert python("print('x' * 100000 + 'the end')", tmp_path).stdout == b"xxthe end\n"


@pytest.mark.parametrize("program", ["no-such-program-here", "not-executable"])
def test_program_that_cannot_start_is_a_missing_tool(program: str, tmp_path: Path) -> None:
    (tmp_path / "not-executable").write_bytes(b"x")
    word = str(tmp_path / program) if program == "not-executable" else program
    with pytest.raises(MissingTool, match=program):
        process.run([word], cwd=tmp_path, env=process.clean_environment(), timeout=60)


def test_child_sees_nothing_that_could_change_what_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = {
        "PYTHONPATH": "/x",
        "PYTHONHOME": "/x",
        "GIT_DIR": "/x",
        "CFLAGS": "-O0",
        "VLLM_TARGET_DEVICE": "cuda",
        "LC_ALL": "tr_TR.UTF-8",
        "LANGUAGE": "tr",
        "TZ": "Pacific/Kiritimati",
        "LD_PRELOAD": "/x",
        "PIP_INDEX_URL": "https://host.invalid",
        "SOURCE_DATE_EPOCH": "1",
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    seen = process.clean_environment()
    assert {name: seen.get(name) for name in hostile} == {**dict.fromkeys(hostile), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    assert seen["PATH"] == os.environ["PATH"]


def test_pip_s_settings_are_passed_on_only_to_a_child_that_is_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://host.invalid")
    assert process.clean_environment(pip=True)["PIP_INDEX_URL"] == "https://host.invalid"
    assert process.clean_environment({"PIP_INDEX_URL": "mine"}, pip=True)["PIP_INDEX_URL"] == "mine"
