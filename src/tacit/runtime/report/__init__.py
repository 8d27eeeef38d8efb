"""Reports of runs: where time, rounds and bytes went, as a page that explains itself."""

from .compared_runs import compare_reports
from .report_file import ReportFile, read_report

__all__ = ["ReportFile", "compare_reports", "read_report"]
