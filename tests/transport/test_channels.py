"""Every kind of channel passes the channel suite."""

from __future__ import annotations

from functools import partial

import pytest
from tests.transport.parties import KINDS, connected

from tacit.errors import ConfigError
from tacit.testing import CHANNEL_CHECKS, ChannelSuite


@pytest.mark.parametrize("check", CHANNEL_CHECKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_channel(kind: str, check: str) -> None:
    assert ChannelSuite(partial(connected, kind)).run(check) == [check]


def test_a_check_that_does_not_exist_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no check is called nothing"):
        ChannelSuite(partial(connected, "memory")).run("nothing")
