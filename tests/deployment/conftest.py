from functools import partial

import pytest
from tests.deployment import matrix


@pytest.fixture
def record(request: pytest.FixtureRequest) -> partial[None]:
    """Notes for the table of failures what the test saw."""
    return partial(matrix.record, request.node.name)
