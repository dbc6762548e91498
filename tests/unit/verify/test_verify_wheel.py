"""A wheel as it is made is verified; each way in which one can be wrong has its own finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import made_verify as mv
import pytest
from made_verify import edited, kinds, state, told

from patchset.verify import Kind, verify
from patchset.verify.model import Unusable

MADE = mv.make()


def rewritten(tmp_path: Path, change: Callable[[dict[str, bytes]], None], filename: str = MADE.filename) -> Path:
    """The wheel with its members changed after RECORD was made."""
    files = MADE.files()
    change(files)
    return mv.write_zip(tmp_path / filename, files)


def test_a_wheel_as_it_is_made(tmp_path: Path) -> None:
    report = verify(MADE.write(tmp_path))
    assert (report.findings, report.exit_code) == ((), 0)
    assert [check.what for check in report.checks if check.state != "ok"] == [
        "*.sha256",
        "*.intoto.json",
        "bill of materials",
        "origin",
    ]
    assert dict(report.facts)["tree"] == MADE.record["tree"]
    assert dict(report.facts)["patches"] == "first second"


def test_a_flipped_byte_in_every_member(tmp_path: Path) -> None:
    for name in MADE.files():
        if name.endswith("/RECORD"):
            continue

        def flip(files: dict[str, bytes], name: str = name) -> None:
            files[name] = bytes([files[name][0] ^ 1]) + files[name][1:]

        report = verify(rewritten(tmp_path, flip))
        assert ("changed", name) in told(report)
        if "/patchset.json" not in name and "/METADATA" not in name:
            assert told(report) == {("changed", name)}, name


def test_no_flipped_byte_of_the_file_changes_what_is_verified_unseen(tmp_path: Path) -> None:
    path = MADE.write(tmp_path)
    sound = path.read_bytes()
    path.with_name(path.name + ".sha256").write_text(f"{mv.sha256(sound)}  {path.name}\n")
    for position in range(0, len(sound), 37):
        path.write_bytes(sound[:position] + bytes([sound[position] ^ 0xFF]) + sound[position + 1 :])
        try:
            assert "chain" in kinds(verify(path))
        except Unusable as error:
            assert error.what and error.next


def test_a_removed_member(tmp_path: Path) -> None:
    def remove(files: dict[str, bytes]) -> None:
        del files["vllm/run.sh"]

    report = verify(rewritten(tmp_path, remove))
    assert told(report) == {("missing", "vllm/run.sh")}
    assert (report.exit_code, state(report, "tree")) == (24, "not run")
    assert told(verify(MADE.with_member("vllm/run.sh", None).write(tmp_path))) == {("tree", "")}
    assert told(verify(MADE.with_member("vllm/b.py", None).write(tmp_path))) == {("missing", "vllm/b.py")}
    assert told(verify(MADE.with_member("vllm/spinloop.abi3.so", None).write(tmp_path))) == {
        ("missing", "vllm/spinloop.abi3.so")
    }


def test_an_added_member(tmp_path: Path) -> None:
    def add(files: dict[str, bytes]) -> None:
        files["vllm/evil.py"] = b"evil\n"

    report = verify(rewritten(tmp_path, add))
    assert (told(report), report.exit_code) == ({("unclaimed", "vllm/evil.py")}, 22)
    assert state(report, "tree") == "ok"


@pytest.mark.parametrize(
    "name", ["vllm/evil.py", "evil.pth", "vllm/a/deep/evil.py", "csrc2/evil.py", "vllm/z/z/evil.py"]
)
def test_an_added_member_that_record_lists_is_found_by_the_tree(tmp_path: Path, name: str) -> None:
    report = verify(MADE.with_member(name, b"evil\n").write(tmp_path))
    assert (told(report), report.exit_code) == ({("unclaimed", name)}, 22)


def test_an_added_folder_that_record_lists_is_found_by_the_tree(tmp_path: Path) -> None:
    made = MADE.with_member("vllm/evil/a.py", b"1\n").with_member("vllm/evil/b/c.py", b"2\n")
    assert told(verify(made.write(tmp_path))) == {("unclaimed", "vllm/evil")}


def test_an_added_file_of_dist_info(tmp_path: Path) -> None:
    def add(files: dict[str, bytes]) -> None:
        files[f"{MADE.folder}/evil.pth"] = b"import os\n"

    made = mv.Made(MADE.members, MADE.record, MADE.version, {"evil.pth": b"import os\n"})
    assert told(verify(made.write(tmp_path))) == {("unclaimed", f"{MADE.folder}/evil.pth")}
    assert ("unclaimed", f"{MADE.folder}/evil.pth") in told(verify(rewritten(tmp_path, add)))


def test_a_source_that_is_not_the_trees_though_record_fits(tmp_path: Path) -> None:
    report = verify(MADE.with_member("vllm/a/deep/er.py", b"deep = 2\n").write(tmp_path))
    assert (told(report), report.exit_code) == ({("tree", ""), ("tree", "vllm/copy.py")}, 29)


def test_a_swapped_patch(tmp_path: Path) -> None:
    report = verify(MADE.with_member("vllm/b.py", b"b = 'other'\n").write(tmp_path))
    assert (told(report), report.exit_code) == ({("patched", "vllm/b.py")}, 30)
    assert state(report, "tree") == "not run"


def test_a_claimed_patch_that_is_not_there(tmp_path: Path) -> None:
    report = verify(MADE.with_member("vllm/b.py", mv.BASE["vllm/b.py"][1]).write(tmp_path))
    assert (told(report), report.exit_code) == ({("not-applied", "vllm/b.py")}, 31)
    assert report.findings[0].what == "patch second is claimed, and vllm/b.py is the base's"
    report = verify(MADE.with_member("vllm/gone.py", mv.BASE["vllm/gone.py"][1]).write(tmp_path))
    assert [(item.kind, item.what) for item in report.findings] == [
        (Kind.NOT_APPLIED, "patch first removes it, and it is there")
    ]


def test_a_claimed_patch_that_is_not_there_and_hashes_that_fit(tmp_path: Path) -> None:
    base = mv.BASE["vllm/b.py"][1]

    def fit(record: dict) -> None:
        record["wheel"]["files"]["vllm/b.py"]["sha256"] = mv.sha256(base)

    report = verify(MADE.with_member("vllm/b.py", base).with_record(fit).write(tmp_path))
    assert told(report) == {("not-applied", "vllm/b.py")}

    def hide(record: dict) -> None:
        del record["wheel"]["files"]["vllm/b.py"]

    report = verify(MADE.with_member("vllm/b.py", base).with_record(hide).write(tmp_path))
    assert told(report) == {("not-applied", "vllm/b.py")}


def test_a_source_called_generated(tmp_path: Path) -> None:
    """With its true blob among what the wheel does not hold, the tree would come out right."""

    def pretend(record: dict) -> None:
        record["wheel"]["generated"]["vllm/__init__.py"] = mv.sha256(b"evil\n")
        record["wheel"]["proof"]["rest"]["vllm"].append(
            ["100644", "__init__.py", mv.blob(mv.BASE["vllm/__init__.py"][1])]
        )

    report = verify(MADE.with_member("vllm/__init__.py", b"evil\n").with_record(pretend).write(tmp_path))
    assert told(report) == {("unclaimed", "vllm/__init__.py")}

    def pretend_native(record: dict) -> None:
        record["wheel"]["generated"]["vllm/fs_io_C.abi3.so"] = mv.sha256(b"evil\n")
        record["wheel"]["proof"]["rest"]["vllm"].append(["100644", "fs_io_C.abi3.so", mv.blob(b"")])

    assert ("tree", "vllm/fs_io_C.abi3.so") in told(
        verify(MADE.with_member("vllm/fs_io_C.abi3.so", b"evil\n").with_record(pretend_native).write(tmp_path))
    )


def test_another_generated_file(tmp_path: Path) -> None:
    report = verify(MADE.with_member("vllm/_version.py", b"version = '9'\n").write(tmp_path))
    assert told(report) == {("changed", "vllm/_version.py"), ("identity", "vllm/_version.py")}
    report = verify(MADE.with_member("vllm/spinloop.abi3.so", b"\x7fELF another").write(tmp_path))
    assert told(report) == {("changed", "vllm/spinloop.abi3.so")}


def test_a_copy_of_a_link(tmp_path: Path) -> None:
    report = verify(MADE.with_member("vllm/copy.py", b"other\n").write(tmp_path))
    assert [(item.kind.label, item.path) for item in report.findings] == [("tree", "vllm/copy.py")]
    assert "a link to vllm/a/deep/er.py" in report.findings[0].what


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"vllm/a.py,sha256=AAAA,12\n", "changed"),
        (b"vllm/a.py,,\n", "changed"),
        (b"", "unclaimed"),
        (b"vllm/a.py\n", "record"),
        (b'"vllm/a.py\n', "record"),
    ],
)
def test_an_edited_record(tmp_path: Path, line: bytes, kind: str) -> None:
    def edit(files: dict[str, bytes]) -> None:
        name = f"{MADE.folder}/RECORD"
        lines = files[name].splitlines(keepends=True)
        files[name] = b"".join(line if row.startswith(b"vllm/a.py,") else row for row in lines)
        assert files[name] != MADE.files()[name]

    report = verify(rewritten(tmp_path, edit))
    assert kind in kinds(report)
    assert report.exit_code in (22, 25, 26)
    if kind in ("changed", "unclaimed"):
        assert told(report) == {(kind, "vllm/a.py")}
        assert state(report, "tree") == "ok", "the file itself is the tree's"


def test_record_is_not_there_or_no_text(tmp_path: Path) -> None:
    for data, kind in (
        (None, "missing"),
        (b"\xff,,\n", "record"),
        (b"a,b\n" * 200_001, "record"),
        (b"vllm/a.py,,\nvllm/a.py,,\n", "record"),
    ):

        def change(files: dict[str, bytes], data: bytes | None = data) -> None:
            name = f"{MADE.folder}/RECORD"
            del files[name]
            files |= {name: data} if data is not None else {}

        assert kind in kinds(verify(rewritten(tmp_path, change)))


def test_an_edited_patchset_json_that_record_does_not_know(tmp_path: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        name = f"{MADE.folder}/patchset.json"
        files[name] = files[name].replace(b"b70-0.23", b"b70-0.24")

    report = verify(rewritten(tmp_path, edit))
    assert (told(report), report.exit_code) == ({("changed", f"{MADE.folder}/patchset.json")}, 25)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("tree", "a" * 40, {"identity", "chain", "tree"}),
        ("wheel:tree", "a" * 40, {"identity"}),
        ("runtime", "0.24.0+xpu.b70." + MADE.record["tree"][:8], {"identity", "chain"}),
        ("wheel:version", "0.24.0", {"identity"}),
        ("base:tree", MADE.record["series"][0]["tree"], {"chain"}),
        ("series:0:tree", MADE.record["tree"], {"chain"}),
        ("series:1:tree", "a" * 40, {"chain"}),
        ("series:2:touched", [], {"chain"}),
        ("series:0:touched", ["vllm/a.py", "vllm/run.sh"], {"chain", "not-applied"}),
        ("series:1:touched", ["vllm/a.py"], {"chain"}),
        ("commit", "3" * 40, {"chain"}),
        ("wheel:files:vllm/a.py:sha256", "a" * 64, {"patched"}),
        ("wheel:files:vllm/a.py:sha256", None, {"not-applied"}),
        ("wheel:files:vllm/a.py:patches", ["first"], {"chain"}),
        ("wheel:generated:vllm/_version.py", "a" * 64, {"changed"}),
        ("wheel:proof:executable", [], {"tree"}),
        ("wheel:proof:rest", {}, {"tree", "missing"}),
        ("wheel:proof:rest:vllm", [["120000", "copy.py", "a" * 40]], {"tree", "unproved"}),
        ("wheel:proof:rest:", [["040000", "vllm", "a" * 40]], {"tree", "missing"}),
    ],
)
def test_an_edited_patchset_json_that_record_knows(
    tmp_path: Path, path: str, value: object, expected: set[str]
) -> None:
    report = verify(MADE.with_record(edited(path, value)).write(tmp_path))
    assert report.findings
    assert kinds(report) <= expected
    assert report.exit_code == max(kind.code for kind in Kind if kind.label in expected & kinds(report))


def test_no_record_and_a_record_of_format_1(tmp_path: Path) -> None:
    files = MADE.files()
    del files[f"{MADE.folder}/patchset.json"]
    report = verify(mv.write_zip(tmp_path / MADE.filename, mv.with_right_record(files, f"{MADE.folder}/RECORD")))
    assert (told(report), report.exit_code) == ({("unproved", "patchset.json")}, 20)

    def older(record: dict) -> None:
        wheel = record["wheel"]
        record["format"] = 1
        wheel["files"] = {path: item["sha256"] for path, item in wheel["files"].items()}
        del wheel["proof"], wheel["generated"]

    made = MADE.with_record(older)
    report = verify(made.write(tmp_path))
    assert (told(report), report.exit_code) == ({("unproved", "")}, 20)
    assert state(report, "patched files") == "partly"
    report = verify(made.with_member("vllm/b.py", b"b\n").write(tmp_path))
    assert ("patched", "vllm/b.py") in told(report)


NEWER = "0.24.0+xpu.b70." + MADE.record["tree"][:8]


def test_an_older_wheel_under_a_newer_name(tmp_path: Path) -> None:
    report = verify(MADE.write(tmp_path, MADE.filename.replace("0.23.0", "0.24.0")))
    assert (kinds(report), report.exit_code) == ({"identity"}, 27)


def test_an_older_wheel_under_a_newer_name_with_metadata_edited_too(tmp_path: Path) -> None:
    files = {name.replace("0.23.0", "0.24.0"): data for name, data in MADE.files().items()}
    folder = MADE.folder.replace("0.23.0", "0.24.0")
    files[f"{folder}/METADATA"] = files[f"{folder}/METADATA"].replace(b"0.23.0", b"0.24.0")
    path = mv.write_zip(
        tmp_path / MADE.filename.replace("0.23.0", "0.24.0"), mv.with_right_record(files, f"{folder}/RECORD")
    )
    report = verify(path)
    assert (kinds(report), report.exit_code) == ({"identity"}, 27)


def test_an_older_wheel_made_newer_everywhere_but_in_its_files(tmp_path: Path) -> None:
    tree = "0123456789" * 4
    version = f"0.24.0+xpu.b70.{tree[:8]}"

    def renew(record: dict) -> None:
        record |= {"runtime": version, "tree": tree}
        record["base"]["release"] = "0.24.0"
        record["wheel"] |= {"version": version, "tree": tree}
        record["series"][-1]["tree"] = tree

    made = MADE.with_record(renew)
    report = verify(mv.Made(made.members, made.record, "0.24.0+xpu.b70.1234567").write(tmp_path))
    assert (told(report), report.exit_code) == ({("tree", ""), ("identity", "vllm/_version.py")}, 29)
