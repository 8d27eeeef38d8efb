"""A sweep finds every other object, wherever it is held."""

import types

import pytest

from tacit.runtime.replay.identity_sweep import IdentitySweep

OLD, NEW = object(), object()


class Holder:
    """An object with a dict."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


class Other(Holder):
    pass


def cell_of(value):
    return types.CellType(value)


def function():
    return None


def swept(add):
    sweep = IdentitySweep()
    add(sweep)
    sweep.take()
    assert sweep.is_same()
    return sweep


def attribute():
    x = Holder(a=OLD)
    return lambda sweep: sweep.add_object(x), lambda: setattr(x, "a", NEW)


def new_attribute():
    x = Holder()
    return lambda sweep: sweep.add_object(x), lambda: setattr(x, "a", NEW)


def attribute_of_another_name():
    x = Holder(a=OLD)

    def change():
        del x.a
        x.b = OLD

    return lambda sweep: sweep.add_object(x), change


def whole_dict():
    x = Holder(a=OLD)
    return lambda sweep: sweep.add_object(x), lambda: setattr(x, "__dict__", {"a": NEW})


def class_of_an_object():
    x = Holder(a=OLD)
    return lambda sweep: sweep.add_object(x), lambda: setattr(x, "__class__", Other)


def value_of_a_dict():
    x = {1: OLD}
    return lambda sweep: sweep.add_mapping(x), lambda: x.update({1: NEW})


def order_of_a_dict():
    x = {1: OLD, 2: OLD}
    return lambda sweep: sweep.add_mapping(x), lambda: x.update({1: x.pop(1)})


def value_of_a_class():
    kind = type("Kind", (), {"a": OLD})
    return lambda sweep: sweep.add_mapping(vars(kind)), lambda: setattr(kind, "a", NEW)


def base_of_a_class():
    kind = type("Kind", (Holder,), {})
    add = lambda sweep: sweep.add_attributes(kind, "__bases__", "__class__")  # noqa: E731
    return add, lambda: setattr(kind, "__bases__", (Other,))


def element_of_a_list():
    x = [OLD] * 1000
    return lambda sweep: sweep.add_elements(x), lambda: x.__setitem__(999, NEW)


def longer_list():
    x = [OLD]
    return lambda sweep: sweep.add_elements(x), lambda: x.append(OLD)


def element_that_moves_to_another_list():
    x, y = [OLD], []

    def add(sweep):
        sweep.add_elements(x)
        sweep.add_elements(y)

    return add, lambda: y.append(x.pop())


def closure():
    cell = cell_of(OLD)
    return lambda sweep: sweep.add_cells([cell]), lambda: setattr(cell, "cell_contents", NEW)


def closure_that_is_emptied():
    cell = cell_of(OLD)
    return lambda sweep: sweep.add_cells([cell]), lambda: delattr(cell, "cell_contents")


def empty_closure():
    cell = types.CellType()
    return lambda sweep: sweep.add_cells([cell]), lambda: setattr(cell, "cell_contents", NEW)


def name_in_a_scope():
    scope = {"a": OLD, "b": OLD}

    def add(sweep):
        sweep.add_names(scope, ["b"])
        sweep.add_names(scope, ["a"])

    return add, lambda: scope.update(a=NEW)


def new_name_in_a_scope():
    scope = {}
    return lambda sweep: sweep.add_names(scope, ["a"]), lambda: scope.update(a=NEW)


def defaults_of_a_function():
    one = types.FunctionType(function.__code__, {})
    add = lambda sweep: sweep.add_attributes(one, "__code__", "__defaults__")  # noqa: E731
    return add, lambda: setattr(one, "__defaults__", (NEW,))


def what_a_function_returns():
    found = [OLD]
    return lambda sweep: sweep.add_other(lambda: found), lambda: found.append(OLD)


CASES = [
    *(attribute, new_attribute, attribute_of_another_name, whole_dict, class_of_an_object),
    *(value_of_a_dict, order_of_a_dict, value_of_a_class, base_of_a_class, element_of_a_list),
    *(longer_list, element_that_moves_to_another_list, closure, closure_that_is_emptied),
    *(empty_closure, name_in_a_scope, new_name_in_a_scope, defaults_of_a_function),
    what_a_function_returns,
]


@pytest.mark.parametrize("case", CASES)
def test_a_change_is_seen(case):
    add, change = case()
    sweep = swept(add)
    change()
    assert not sweep.is_same()
    swept(add)


def test_changes_are_seen_among_others():
    """All at once, with one change at a time."""
    made = [case() for case in CASES]

    def add_all(sweep):
        for add, _ in made:
            add(sweep)

    for _, change in made:
        sweep = swept(add_all)
        change()
        assert not sweep.is_same(), change


def test_what_was_taken_again_is_the_same():
    x = Holder(a=1000)
    sweep = swept(lambda one: one.add_object(x))
    x.a = int("1000")  # another object
    assert not sweep.is_same()
    sweep.take()
    assert sweep.is_same()
