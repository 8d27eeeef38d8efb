"""The table of kernel speeds by processor, from records."""

import json

import pytest
from docs import processors


def record(date: str, processor: str, value: float) -> str:
    run = {"date": date, "processor": processor, "machine": "m", "torch": "2", "commit": "c" * 40}
    names = [f"{case}, level {level}" for case in ("sum", "product") for level in ("fast", "slow")]
    rows = [{"name": name, "value": value, "unit": "GB/s"} for name in names]
    return json.dumps({"run": run, "rows": rows})


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(processors, "RESULTS", tmp_path)
    return tmp_path


def test_each_processor_has_its_newest_record(results):
    (results / "1-kernels_levels.json").write_text(record("2026-01-02", "one", 2.0))
    (results / "2-kernels_levels.json").write_text(record("2026-01-01", "one", 1.0))
    (results / "3-kernels_levels.json").write_text(record("2026-01-01", "two", 3.0))
    page = processors.processors_page()
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## one", "## two"]
    assert page.count("| kernel | slow | fast |") == 2
    assert "| product, GB/s | 2.00 | 2.00 |" in page
    assert "| product, GB/s | 3.00 | 3.00 |" in page
    assert "1.00" not in page
