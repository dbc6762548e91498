"""The command, as a module and as one file: exit codes, what it prints, and that it needs nothing."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import made_verify as mv
import pytest

import patchset.verify
from patchset.verify import Kind, exit_codes
from patchset.verify.__main__ import main
from patchset.verify.text import harmless
from patchset.wheel.single_file import single_file

PACKAGE = Path(patchset.verify.__file__).parent
MADE = mv.make()


@pytest.fixture
def pyz(tmp_path: Path) -> Path:
    path = tmp_path / "verify.pyz"
    path.write_bytes(single_file())
    return path


def run(
    pyz: Path, *words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    argv = [sys.executable, "-I", "-S", pyz, *words]
    return subprocess.run(argv, cwd=cwd or pyz.parent, env=env, capture_output=True, timeout=60)


def test_the_package_needs_the_standard_library_only_and_itself_by_relative_imports() -> None:
    modules = list(PACKAGE.glob("*.py"))
    assert len(modules) > 10
    assert [path.name for path in PACKAGE.iterdir() if path.is_dir()] in ([], ["__pycache__"])
    for path in modules:
        printing = []
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1 and node.module and (PACKAGE / f"{node.module}.py").is_file(), path
            elif isinstance(node, ast.ImportFrom):
                assert str(node.module).partition(".")[0] in sys.stdlib_module_names, path
            elif isinstance(node, ast.Import):
                assert {name.name.partition(".")[0] for name in node.names} <= set(sys.stdlib_module_names), path
            elif isinstance(node, ast.Name) and node.id in ("print", "__import__", "exec", "eval"):
                printing.append(node.id)
        assert printing == (["print"] if path.name == "__main__.py" else []), path
        assert len(path.read_text("utf-8").splitlines()) < 400


def test_one_file(pyz: Path, tmp_path: Path) -> None:
    wheel = MADE.write(tmp_path)
    ended = run(pyz, wheel)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode().splitlines()[-1].startswith("verified: ")
    ended = run(pyz, MADE.with_member("vllm/b.py", mv.BASE["vllm/b.py"][1]).write(tmp_path), "--json")
    document = json.loads(ended.stdout)
    assert (ended.returncode, document["exit_code"], document["verified"]) == (31, 31, False)
    assert document["findings"][0]["kind"] == "not-applied"
    assert set(document["findings"][0]) == {"kind", "exit_code", "path", "what", "why", "next"}


def test_one_file_is_the_same_bytes_whenever_and_wherever(tmp_path: Path) -> None:
    code = "import sys; from patchset.wheel.single_file import single_file; sys.stdout.buffer.write(single_file())"
    root = PACKAGE.parents[1]
    made = [
        subprocess.run(
            [sys.executable, "-c", f"import os; os.umask({mask}); {code}"],
            env={**os.environ, "PYTHONPATH": str(root), "TZ": zone, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
            cwd=tmp_path,
            check=True,
            capture_output=True,
        ).stdout
        for mask, zone, seed in (("0o077", "Asia/Tokyo", "1"), ("0", "UTC", "2"))
    ]
    assert made[0] == made[1] == single_file()
    assert b".pyc" not in made[0][-4000:], "names in the directory of the archive"


def test_the_module(tmp_path: Path) -> None:
    wheel = MADE.write(tmp_path)
    argv = [sys.executable, "-m", "patchset.verify", wheel]
    assert subprocess.run(argv, cwd=PACKAGE.parents[1], capture_output=True).returncode == 0


def test_an_installation_from_a_folder(pyz: Path, tmp_path: Path) -> None:
    site = mv.install(MADE, tmp_path / "env")
    mv.put(tmp_path / "work" / "vllm" / "__init__.py", b"raise SystemExit(99)")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    assert run(pyz, site, env=env).returncode == 0
    assert run(pyz, site, "--from", tmp_path / "work", env=env).returncode == 32
    assert run(pyz, site, cwd=tmp_path / "work", env=env).returncode == 32


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nowhere.whl"],
        ["no\x1b[2Jwhere.whl"],
        ["--no\x1b[2Jsuch", "x"],
        ["x.txt"],
        ["a", "b"],
        [__file__],
        ["/dev/zero"],
        ["r.json", "--receipt", "r.json"],
        ["w.whl", "--from", "."],
        ["w.whl", "--receipt", "none.json"],
        ["--fro", "x", "y"],
    ],
)
def test_what_cannot_be_used(
    tmp_path: Path, words: list[str], capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    MADE.write(tmp_path, "w.whl")
    (tmp_path / "r.json").write_text("{}")
    try:
        code: object = main(words)
    except SystemExit as ended:
        code = ended.code
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "  next: " in err
    assert "\x1b" not in err


def test_an_unusable_target_as_json(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    assert main([str(tmp_path / "none.whl"), "--json"]) == 2
    assert json.loads(capfd.readouterr().out)["error"]["exit_code"] == 2


def test_nothing_of_the_input_reaches_the_terminal_as_more_than_text(pyz: Path, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e\r\n\ud800"

    def spoil(record: dict) -> None:
        record["recipe"] = record["series"][0]["title"] = evil

    wheel = MADE.with_record(spoil).with_member("vllm/\x1b[2J.py", b"").write(tmp_path)
    assert run(pyz, wheel).returncode == 33
    document = mv.receipt_of(MADE, MADE.with_record(spoil).write(tmp_path))
    document["not_run"] = [{"what": evil, "why": evil}]
    receipt = mv.write_receipt(tmp_path, document)
    ended = run(pyz, receipt, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 28
    for text in (ended.stdout, run(pyz, wheel).stdout):
        assert not set(text.decode("utf-8")) - {"\n"} & {
            character for character in text.decode() if not character.isprintable()
        } - {"\n"}
    assert harmless("a\tb\u202e\ud800") == "a\\tb\\u202e\\ud800"


def test_help_has_every_exit_code(pyz: Path) -> None:
    text = run(pyz, "--help").stdout.decode()
    for kind in Kind:
        assert f"{kind.code}  {kind.label}" in text and kind.meaning in text
    codes = [code for code, _ in exit_codes().values()]
    assert codes == sorted(set(codes)) and codes[0] == 20


def test_a_reader_that_goes_away(pyz: Path, tmp_path: Path) -> None:
    wheel = MADE.write(tmp_path)
    line = f"{sys.executable} -I {pyz} {wheel} | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (ended.stdout.strip(), ended.stderr) == ("0", "")
