"""Rejects in the order of the input, and those that a report names."""

from pathlib import Path

from prepcli.engine.publishing.rejects import first_if_all_alike, merge_rejects
from tests.conftest import write_lines


def test_rejects_are_in_the_order_of_the_manifests_and_lines(tmp_path: Path) -> None:
    def line(manifest: str, number: int) -> bytes:
        return b'{"manifest_line":%d,"manifest_filepath":"%s"}\n' % (number, manifest.encode())

    planned = [line("b.json", 2), line("b.json", 4), line("a.json", 1)]
    for name, lines in (("u1", [line("a.json", 3), line("b.json", 3)]), ("u2", [line("a.json", 2), line("b.json", 1)])):
        (tmp_path / name).write_bytes(b"".join(lines))
    merged = list(merge_rejects(planned, [tmp_path / "u1", tmp_path / "u2"], ["b.json", "a.json", "b.json"]))
    assert merged == [line("b.json", n) for n in (1, 2, 3, 4)] + [line("a.json", n) for n in (1, 2, 3)]


def test_the_first_reject_is_not_one_that_was_asked_for(tmp_path: Path) -> None:
    def reject(reason: str, number: int) -> dict[str, object]:
        return {"reject_reason": reason, "reject_detail": f"detail {number}", "manifest_line": number}

    listed = write_lines(
        tmp_path / "rejects.jsonl", [reject("below_min_duration", 1), reject("bad_field", 2), reject("bad_field", 3)]
    )
    assert first_if_all_alike({"below_min_duration": 1, "bad_field": 2}, str(listed)) == "line 2: detail 2"
    assert first_if_all_alike({"below_min_duration": 1}, str(listed)) == ""
