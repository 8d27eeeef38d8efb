"""The modules of Tacit and of the user's program in an enclave: compiled from what was measured.

Nothing of them is read from Python's caches, which are not measured. Libraries are measured by
their version, and come with their caches.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType

from ...errors import AttestationRejected
from ..attestation import Manifest

SCRIPT = "__main__"  # the program that was started, as pickled functions name it
_NOT_AS_SCRIPT = "__mp_main__"  # its __name__ here, as in every process that another one starts
TACIT = "tacit."
_PACKAGE_FILE = "__init__.py"


class FromSource(SourceFileLoader):
    """Compiles a module from its source, whether or not there is a cache."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class TacitFromSource(MetaPathFinder):
    """Finds the modules of Tacit where Python does, and compiles them from their sources."""

    def install(self) -> None:
        """Takes effect for all later imports; from then on libraries are read from their caches."""
        sys.meta_path.insert(0, self)
        sys.pycache_prefix = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(TACIT):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = FromSource(spec.loader.name, spec.loader.path)
            spec.cached = None
        return spec


class Measured(FromSource):
    """Compiles a module from its source if that has this hash."""

    def __init__(self, name: str, path: str, digest: str | None) -> None:
        super().__init__(name, path)
        self._digest = digest

    def get_data(self, path: str) -> bytes:
        data = super().get_data(path)
        if hashlib.sha256(data).hexdigest() != self._digest:
            raise AttestationRejected(
                f"module {self.name} was changed after it was measured",
                field=f"module {self.name}",
                told="a module was changed after it was measured",
            )
        return data


class MeasuredModules(MetaPathFinder):
    """Finds modules by their names in a list, and loads a file only if it has its measured hash."""

    def __init__(self, modules: Mapping[str, str], manifest: Manifest) -> None:
        self._modules, self._manifest = dict(modules), manifest

    def install(self) -> None:
        """Makes the modules importable, before all others, and runs the script if it is listed."""
        sys.meta_path.insert(0, self)
        if SCRIPT in self._modules:
            spec = self._spec(SCRIPT, _NOT_AS_SCRIPT)
            assert spec.loader is not None
            script = module_from_spec(spec)
            sys.modules[SCRIPT] = sys.modules[_NOT_AS_SCRIPT] = script
            spec.loader.exec_module(script)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a listed module, or a folder of listed modules; else None."""
        if name in self._modules:
            return self._spec(name, name)
        if any(known.startswith(f"{name}.") for known in self._modules):
            return ModuleSpec(name, None, is_package=True)
        return None

    def _spec(self, listed: str, name: str) -> ModuleSpec:
        """Returns how to load the module that is listed under a name, with another or the same."""
        file = self._modules[listed]
        loader = Measured(name, file, self._manifest.entries.get(f"module {listed}"))
        inside: list[str] | None = [] if file.endswith(_PACKAGE_FILE) else None
        spec = spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
        assert spec is not None
        return spec
