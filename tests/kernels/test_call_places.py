"""The line of the user's program in the log of calls: the innermost one, wherever the call is."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from tacit.errors import call_sites
from tacit.errors.call_sites import USERS_FILES, is_users_frame
from tacit.kernels import load_call_log
from tacit.ring.reference.call_log import CallLog as Reference

LIBRARY = str(Path(torch.__file__).parents[1] / "library" / "code.py")
ABSORB = "def call(log):\n\n    log.absorb('name', [], {})\n"
CALL = "def call(log, inner):\n    return inner(log)\n"


@pytest.fixture(params=[load_call_log(), Reference], ids=["compiled", "reference"])
def log(request: pytest.FixtureRequest) -> Any:
    return request.param(set(), lambda x: (), USERS_FILES, is_users_frame, 10)


def program(source: str, file: str, module: str = "no_such_module") -> Any:
    """The function `call` of a source that is said to be this file."""
    space: dict[str, Any] = {"__name__": module}
    exec(compile(source, file, "exec"), space)
    return space["call"]


def found(log: Any, index: int = 0) -> tuple[str, str, int] | None:
    place = log.place(index)
    return place and (place[0].co_filename, place[0].co_name, place[1])


@pytest.mark.parametrize(
    "file", ["/home/user/program.py", "<ipython-input-3-0fe1>", "/tmp/ipykernel_7/12.py", "<stdin>"]
)
def test_the_innermost_line_of_the_program(log, file):
    library = program(CALL, LIBRARY)
    user, outer = program(ABSORB, file), program(CALL, "/home/user/main.py")
    outer(log, user)
    outer(log, lambda log: library(log, user))
    assert found(log, 0) == found(log, 1) == (file, "call", 3)


def test_a_library_is_passed_over(log):
    library = program(ABSORB, LIBRARY)
    program(CALL, "/home/user/program.py")(log, library)
    assert found(log) == ("/home/user/program.py", "call", 2)


class Absorbing(nn.Module):
    def __init__(self, log: Any) -> None:
        super().__init__()
        self.log = log

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.log.absorb("name", [x.shape], {})  # here
        return x


def test_a_module_of_the_user(log):
    nn.Sequential(nn.Identity(), Absorbing(log))(torch.ones(1))
    file, function, line = found(log) or ("", "", 0)
    assert (file, function) == (__file__, "forward")
    assert Path(file).read_text().splitlines()[line - 1].endswith("# here")


def test_a_module_of_torch_that_calls_a_library(log):
    hook = program("def call(log, module, args):\n    log.absorb('name', [], {})\n", LIBRARY)
    module = nn.Sequential(nn.ReLU())
    module[0].register_forward_pre_hook(partial(hook, log))
    module(torch.ones(1))  # this line
    file, _, line = found(log) or ("", "", 0)
    assert Path(file).read_text().splitlines()[line - 1].endswith("# this line")


def test_a_generator_and_a_line_inside_of_a_long_expression(log):
    source = "def call(log):\n  yield 1\n  [1,\n   log.absorb('x', [], {}),\n   2]\n"
    list(program(source, "/home/user/program.py")(log))
    assert found(log) == ("/home/user/program.py", "call", 4)


def test_code_without_a_file_belongs_to_its_module(log):
    """Such as that of a dataclass: the name of its file says nothing."""
    of_library, of_user = ModuleType("a_library"), ModuleType("a_program")
    of_library.__file__, of_user.__file__ = LIBRARY, "/home/user/program.py"
    sys.modules.update({one.__name__: one for one in (of_library, of_user)})
    try:
        outer = program(CALL, "/home/user/main.py")
        for name in ("a_library", "a_program", "a_library"):
            outer(log, program(ABSORB, "<string>", name))
    finally:
        del sys.modules["a_library"], sys.modules["a_program"]
    files = [(found(log, i) or ("",))[0] for i in range(3)]
    assert files == ["/home/user/main.py", "<string>", "/home/user/main.py"]
    assert "<string>" not in USERS_FILES


def test_without_a_program_there_is_no_line():
    for kind in (load_call_log(), Reference):
        log = kind(set(), lambda x: (), {}, lambda frame: False, 10)
        log.absorb("name", [], {})
        assert log.place(0) is None


def test_an_error_while_a_frame_is_looked_at_is_raised():
    def is_users(frame: Any) -> bool:
        raise KeyError(frame.f_code.co_name)

    for kind in (load_call_log(), Reference):
        log = kind(set(), lambda x: (), {}, is_users, 10)
        with pytest.raises(KeyError):
            log.absorb("name", [], {})
        with pytest.raises(IndexError):
            log.place(0)


def test_files_are_remembered_up_to_a_number(monkeypatch, log):
    monkeypatch.setattr(call_sites, "MOST_FILES", 3)
    USERS_FILES.clear()
    for i in range(20):
        program(ABSORB, f"/home/user/{i}.py")(log)
        assert len(USERS_FILES) <= 3
    assert found(log, 19) == ("/home/user/19.py", "call", 3)
