"""How an owner learns which code and which configuration an enclave runs, before it sends data.

The enclave's certificate comes with a `Quote`: the manifest of what was measured, and evidence that
the hardware signed. `verify` refuses every difference by its name.
"""

from .measurement import Manifest, measure
from .quote import Quote, report_data
from .quote_check import verify
from .sgx_dcap import SgxPolicy

__all__ = ["Manifest", "Quote", "SgxPolicy", "measure", "report_data", "verify"]
