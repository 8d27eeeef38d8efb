"""Settings are checked where they are made, and their digest tells them apart."""

from __future__ import annotations

import pytest

from tacit.config import Config
from tacit.errors import ConfigError


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"ring": 16}, r"ring=16: allowed are 32, 64"),
        ({"ring": "64"}, r"ring='64'"),
        ({"fraction_bits": -1}, r"fraction_bits=-1: a ring of 64 bits allows 0 to 28"),
        ({"fraction_bits": 29}, r"0 to 28, so that a product of numbers below 2\^5 fits"),
        ({"fraction_bits": 16.0}, r"fraction_bits=16\.0"),
        ({"fraction_bits": True}, r"fraction_bits=True"),
        ({"ring": 32, "fraction_bits": 16}, r"a ring of 32 bits allows 0 to 12"),
        ({"protocol": "magic"}, r"protocol='magic': allowed are 'trio'"),
        ({"truncation": "lucky"}, r"truncation='lucky': allowed are 'exact'"),
        ({"range_bits": 30}, r"range_bits=30: .* allows 1 to 29"),
        ({"range_bits": 2.0}, r"range_bits=2\.0"),
    ],
)
def test_a_bad_setting_names_field_value_and_choices(bad, message):
    with pytest.raises(ConfigError, match=message):
        Config(**bad)


def test_settings_cannot_change():
    with pytest.raises(AttributeError):
        Config().ring = 32
