"""The modules of the user's program inside an enclave: each is compiled from what was measured."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from ...errors import AttestationRejected
from ..attestation import Manifest

SCRIPT = "__main__"  # the program that was started, as pickled functions name it
_NOT_AS_SCRIPT = "__mp_main__"  # its __name__ here, as in every process that another one starts
_PACKAGE_FILE = "__init__.py"


class MeasuredModules(MetaPathFinder, Loader):
    """Finds modules by their names in a list, and loads a file only if it has its measured hash."""

    def __init__(self, modules: Mapping[str, str], manifest: Manifest) -> None:
        self._modules, self._manifest = dict(modules), manifest

    def install(self) -> None:
        """Makes the modules importable, before all others, and runs the script if it is listed."""
        sys.meta_path.insert(0, self)
        if SCRIPT in self._modules:
            script = ModuleType(_NOT_AS_SCRIPT)
            script.__file__ = self._modules[SCRIPT]
            sys.modules[SCRIPT] = sys.modules[_NOT_AS_SCRIPT] = script
            self._execute(SCRIPT, script)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a listed module, or a folder of listed modules; else None."""
        if name in self._modules:
            file = self._modules[name]
            inside: list[str] | None = [] if file.endswith(_PACKAGE_FILE) else None
            return spec_from_file_location(
                name, file, loader=self, submodule_search_locations=inside
            )
        if any(known.startswith(f"{name}.") for known in self._modules):
            return ModuleSpec(name, None, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._execute(module.__name__, module)

    def _execute(self, name: str, module: ModuleType) -> None:
        source = Path(self._modules[name]).read_bytes()
        if hashlib.sha256(source).hexdigest() != self._manifest.entries.get(f"module {name}"):
            raise AttestationRejected(
                f"module {name} was changed after it was measured",
                field=f"module {name}",
                told="a module was changed after it was measured",
            )
        exec(compile(source, self._modules[name], "exec"), module.__dict__)
