"""The names in the code of a function: what it can read of variables, objects and files."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from dis import Instruction
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

BY_NAME = frozenset(("getattr", "hasattr", "setattr", "delattr"))
LISTING = frozenset(("__dict__", "__getattribute__", "__getstate__", "__reduce_ex__", "__slots__"))
# Methods that syntax calls, and functions of Python.
BY_SYNTAX = {"COMPARE_OP": ("__eq__", "__lt__", "__gt__"), "CONTAINS_OP": ("__eq__", "__hash__")}
BY_SYNTAX |= dict.fromkeys(("FORMAT_VALUE", "FORMAT_SIMPLE"), ("__repr__", "__str__", "__format__"))
SHOWING = frozenset(("repr", "str", "format"))
UNSEEN = frozenset(("NOP", "CACHE", "EXTENDED_ARG", "KW_NAMES", "RESUME"))
VARIABLE = ("LOAD_NAME", "STORE_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
FIELD = re.compile(r"[.\[{]([^\W\d]\w*)")  # a name in a text like "{0.factor}"


class CodeNames(NamedTuple):
    """Names in the code of a function, and in code nested in it.

    variables: global ones. attributes: of objects and files, and texts that may name one.
    imports: files that it imports, with the level of a relative import.
    computes: whether it reads attributes whose names the code does not show.
    """

    variables: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[tuple[str, int], ...]
    computes: bool


@lru_cache(maxsize=1 << 13)
def names_in(code: CodeType) -> CodeNames:
    """Returns the names in a code, and in code nested in it."""
    variables, attributes = dict[str, None](), set[str]()
    imports, computes = list[tuple[str, int]](), False
    for one in _codes(code):
        instructions = [x for x in dis.get_instructions(one) if x.opname not in UNSEEN]
        computes = computes or _computes(instructions)
        attributes.update(*map(_texts, one.co_consts))
        for i, x in enumerate(instructions):
            if x.opname == "IMPORT_NAME":
                imports.append((x.argval, instructions[i - 2].argval))
            elif "GLOBAL" in x.opname or x.opname in VARIABLE:
                variables[x.argval] = None
                attributes.update(("__repr__", "__str__") if x.argval in SHOWING else ())
            elif x.opcode in dis.hasname:
                attributes.add(x.argval)
            attributes.update(BY_SYNTAX.get(x.opname, ()))
            if x.opname == "BINARY_OP" and x.argrepr.startswith("%"):  # it may format a text
                attributes.update(("__repr__", "__str__"))
    computes = computes or not attributes.isdisjoint(LISTING)
    return CodeNames(tuple(variables), frozenset(attributes), tuple(imports), computes)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _texts(x: Any) -> Iterator[str]:
    """Yields the names in a constant of a code."""
    if isinstance(x, str):
        yield from [x] if x.isidentifier() else FIELD.findall(x)
    elif isinstance(x, tuple | frozenset):
        for one in x:
            yield from _texts(one)


def _computes(instructions: list[Instruction]) -> bool:
    """Whether a code reads attributes by names that are no constants of it, or by their places."""
    for i, x in enumerate(instructions):
        if x.opname == "MATCH_CLASS" and x.arg:
            return True
        is_named = "GLOBAL" in x.opname or x.opname in VARIABLE
        if is_named and x.argval in BY_NAME and not _names_a_constant(instructions, i):
            return True
    return False


def _names_a_constant(instructions: list[Instruction], start: int) -> bool:
    """Whether `getattr`, which an instruction loads, is called with a constant name.

    Follows the stack above the function until the call: who put each operand there.
    """
    operands: list[Instruction] = []
    for x in instructions[start + 1 :]:
        if x.opname in ("PRECALL", "CALL") and x.arg == len(operands):
            name = operands[1] if len(operands) > 1 else x
            return name.opname == "LOAD_CONST" and isinstance(name.argval, str)
        argument = x.arg if x.opcode >= dis.HAVE_ARGUMENT else None
        height = len(operands) + dis.stack_effect(x.opcode, argument, jump=False)
        if x.opcode in JUMPS or height <= 0:
            return False
        del operands[height - 1 :]
        operands += [x] * (height - len(operands))
    return False
