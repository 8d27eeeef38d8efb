"""A difference between parties is found wherever it is, and told in few words."""

import pytest

import tacit
from tacit.errors import ConfigError
from tacit.nn.agreement import MOST_QUOTED, compare


@pytest.mark.parametrize("where", [0, MOST_QUOTED, 5 * MOST_QUOTED])
def test_a_difference_is_found_wherever_it_is_in_a_line(where):
    def main(session):
        line = "a" * where + str(session.rank) + "b" * 10
        try:
            compare(session.numbers, "save", {"settings": line})
        except ConfigError as error:
            return str(error)
        return None

    results = tacit.run(main)
    assert len(set(results)) == 1
    assert "differ at settings: party 0 has" in results[0]
    assert len(results[0]) < 3 * MOST_QUOTED
