"""A host as a process of its own: it starts an enclave and relays for it, until the enclave ends.

Arguments: a folder with owner.pem; it writes what the owner needs to know to host.json there.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from tacit.enclave.configuration import EnclaveConfig
from tacit.enclave.host.launcher import EnclaveProcess

PROGRAM = Path(__file__).parent / "enclave_program.py"


def main(folder: Path) -> None:
    logging.basicConfig(filename=folder / "host.log", level=logging.INFO)
    config = EnclaveConfig(
        settings={"owner": (folder / "owner.pem").read_text()},
        program=str(PROGRAM),
        function="serve",
    )
    leaked = os.open(folder / "owner.pem", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    os.environ["HOST_SECRET"] = "x"
    with EnclaveProcess.start(config) as enclave:
        address = enclave.relay.listen("127.0.0.1", name="owners")
        known = {
            "address": address,
            "host": os.getpid(),
            "enclave": enclave.pid,
            "granted": int(enclave.granted),
        }
        (folder / "host.tmp").write_text(json.dumps(known))
        (folder / "host.tmp").rename(folder / "host.json")
        word = enclave.wait()
    trusted = [name for name in sys.modules if name.startswith("tacit.enclave.trusted")]
    (folder / "end.tmp").write_text(json.dumps({"word": word, "trusted": trusted}))
    (folder / "end.tmp").rename(folder / "end.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
