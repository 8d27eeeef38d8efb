"""The fields of errors, the sentence that is made of them, and their way between processes."""

from __future__ import annotations

import json
import pickle

import pytest

from tacit import errors
from tacit.errors import (
    Error,
    Frame,
    HandshakeMismatch,
    Operator,
    Party,
    PartyFailed,
    PeerTimeout,
    RangeError,
    UnsupportedOp,
    fields_of,
    one_line,
)

LINE = Frame("/home/a/train.py", 12, "main", "user")
LIBRARY = Frame("/x/site-packages/fancy/layers.py", 3, "forward", "library")


def located(error: Error, *lines: Frame | None) -> Error:
    error.path, error.module, error.model = "blocks.0", "Block", "Net"
    error.known_lines = (*lines, None, None)[:2]
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Error("it broke"), "it broke"),
        (Error("it broke", remedy="mend it"), "it broke; mend it"),
        (Error("ring=7", limit="allowed are 32 and 64"), "ring=7: allowed are 32 and 64"),
        (
            RangeError("a result is beyond the range", limit="2^20", remedy="scale it", op="mul"),
            "mul: a result is beyond the range: 2^20; scale it",
        ),
        (
            Error("x.key cannot be read", cause="Is a directory"),
            "x.key cannot be read: Is a directory",
        ),
        (Error("no value", subject="share"), "share: no value"),
        (Error("no value", subject="weight").about("share"), "share: weight: no value"),
        (
            PeerTimeout(Party(2) + " is silent", party=2, operation=7, remedy="start it"),
            "party 2 is silent at operation 7; start it",
        ),
        (UnsupportedOp(Operator("aten.mm") + " has no rule", op="aten.mm"), "aten.mm has no rule"),
        (
            located(Error("it broke"), LINE),
            "it broke (in Net: 'blocks.0', a Block) (at train.py:12 in main)",
        ),
        (
            located(Error("it broke"), LINE, LIBRARY),
            "it broke (in Net: 'blocks.0', a Block) "
            "(at fancy/layers.py:3 in forward, called at train.py:12 in main)",
        ),
    ],
)
def test_the_sentence(error, text):
    assert str(error) == text


def fails():
    raise RangeError("too large", limit="2^20", remedy="scale it", op="aten.mul", party=1)


def test_a_failed_party_has_the_fields_of_its_error():
    with pytest.raises(RangeError) as caught:
        fails()
    failed = PartyFailed.of(caught.value, 2)
    assert (failed.party, failed.kind, failed.reason) == (2, "RangeError", "too large")
    assert (failed.limit, failed.remedy, failed.op) == ("2^20", "scale it", "aten.mul")
    assert failed.headline == (
        "party 2 failed: RangeError: aten.mul: too large: 2^20; scale it "
        f"(at test_fields.py:{caught.value.frames[-1].line} in fails)"
    )
    assert failed.line is not None
    assert failed.line.function == "fails"
    assert "in fails" in failed.trace
    lines = "Your lines at party 2 (all lines: python -X dev):"
    assert str(failed).startswith(f"{failed.headline}\n\n{lines}\n  test_fields.py:")
    failed.names = ("alice", "bob", "carol")
    assert failed.headline.startswith("party 2 (carol) failed: ")


def test_a_failed_party_with_an_error_of_others():
    failed = PartyFailed.of(LookupError("a\nb"), 0)
    assert (failed.kind, failed.headline) == ("LookupError", "party 0 failed: LookupError: a\nb")
    assert PartyFailed("it was killed", party=1).headline == "party 1 failed: it was killed"


@pytest.mark.parametrize("kind", [e for e in vars(errors).values() if isinstance(e, type)])
def test_every_error_survives_the_way_to_another_process(kind):
    if not issubclass(kind, Error):
        return
    extra = {"field": "ring"} if kind is HandshakeMismatch else {}
    error = kind(
        Party(1) + " broke", remedy="mend", limit="3", party=1, operation=5, op="aten.mm", **extra
    )
    located(error.about("share"), LINE, LIBRARY)
    error.names = ("alice", "bob")
    error.add_note("then others")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert fields_of(copy) == fields_of(error)
    assert vars(copy) == vars(error)


def test_the_line_goes_along_where_the_traceback_does_not():
    with pytest.raises(RangeError) as caught:
        fails()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.__traceback__ is None
    assert copy.line is not None
    assert (copy.line.function, copy.line.owner) == ("fails", "user")


def test_all_fields_as_plain_data():
    try:
        try:
            raise OSError("disk full")
        except OSError as full:
            raise RangeError(Party(1) + " broke", remedy="mend", party=1) from full
    except RangeError as error:
        found = json.loads(json.dumps(fields_of(error)))
    assert found["line"].endswith("in test_all_fields_as_plain_data")
    assert {name: found[name] for name in ("kind", "reason", "remedy", "party", "cause")} == {
        "kind": "RangeError",
        "reason": "party 1 broke",
        "remedy": "mend",
        "party": 1,
        "cause": "OSError: disk full",
    }
    assert fields_of(KeyError("x"))["kind"] == "KeyError"
    assert set(fields_of(KeyError("x"))) == set(found)


def test_a_line_of_text_for_any_error():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert one_line(caught.value).startswith(
        "ZeroDivisionError: division by zero (at test_fields.py:"
    )
