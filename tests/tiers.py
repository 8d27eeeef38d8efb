"""The two tiers of the suite: quick (`make test`) and full (`make test-all`, `pytest --full`).

The quick tier runs every feature, on fewer samples and in fewer sessions. A test that repeats at a
higher price what a quick test covers is marked

    @pytest.mark.full("every protocol; test_one_protocol covers trio")

and the text says what the quick tier runs instead. The last line of a run counts what was left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

FULL = False  # tests/conftest.py sets it before any test module is imported
QUICK_SHARE = 4  # the quick tier draws a quarter of the examples
QUICK_MINIMUM = 10

T = TypeVar("T")


def draws(examples: int, **options: Any) -> settings:
    """Hypothesis settings: this many examples in the full tier, a quarter in the quick one."""
    quick = min(examples, max(QUICK_MINIMUM, examples // QUICK_SHARE))
    return settings(max_examples=examples if FULL else quick, deadline=None, **options)


def spread(items: Sequence[T], quick: int) -> list[T]:
    """All items in the full tier, `quick` of them at equal distances in the quick one."""
    if FULL or len(items) <= quick:
        return list(items)
    return [items[i * len(items) // quick] for i in range(quick)]
