"""How a job imports: what runs of its folder are the bytes that were hashed.

NOTE [what runs is what was hashed] Python's own loader reads a file again when it is imported, or
a cached file beside it that may belong to an older source. The importer of a job keeps the bytes
that were hashed and compiles those; it neither reads nor writes `__pycache__`. A file of the folder
that the job imports under a computed name while it is loaded becomes one of its files, and is
compared. One that it imports later, when the parties have already compared, is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader, all_suffixes
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Lock
from types import CodeType, ModuleType

from ...errors import ConfigError
from .job_files import TACIT, read_source

_loading = Lock()


def load_module(name: str, path: Path, importer: JobImporter) -> ModuleType:
    """Returns the module of a job; the files of its folder come from the importer.

    A module is loaded once per process under one name.
    """
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        importer.install(but=path.name)
        spec = importer.spec(name, path)
        module = sys.modules[name] = module_from_spec(spec)
        try:
            assert spec.loader is not None
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            sys.meta_path.remove(importer)
            raise
        return module


def importer_of(module: ModuleType) -> JobImporter:
    """Returns the importer that loaded the module of a job."""
    loader = module.__spec__.loader if module.__spec__ else None
    assert isinstance(loader, _HashedLoader)
    return loader.importer


class JobImporter(MetaPathFinder):
    """Finds modules in the folder of a job, and runs the bytes in `files`.

    While it is `open`, a module of the folder that is not in `files` is read and added to them.
    """

    def __init__(self, folder: Path, files: dict[str, bytes], *, open: bool) -> None:
        self.folder, self.files, self.open = folder, files, open

    def install(self, *, but: str) -> None:
        """Becomes the first finder of the process, in place of one for the same folder.

        Modules that were loaded from the folder are loaded again, except the job's own file.
        """
        for name in self.files.keys() - {but}:
            _forget(_module_name(name), self.folder)
        others = [
            finder
            for finder in sys.meta_path
            if not (isinstance(finder, JobImporter) and finder.folder == self.folder)
        ]
        sys.meta_path[:] = [self, *others]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module of the folder, or None if the folder has none."""
        last = fullname.rpartition(".")[2]
        for base in [self.folder] if path is None else map(Path, path):
            if not base.is_relative_to(self.folder):
                continue
            stem = base / last
            for file in (stem / "__init__.py", *(base / f"{last}{end}" for end in all_suffixes())):
                if self._name(file) in self.files or file.is_file():
                    return None if file.is_relative_to(TACIT) else self.spec(fullname, file)
            inside = f"{self._name(stem)}/"
            if any(name.startswith(inside) for name in self.files):
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = [str(stem)]
                return spec
        return None

    def spec(self, fullname: str, file: Path) -> ModuleSpec:
        """Returns the spec of a module that runs the bytes of this importer."""
        packages = [str(file.parent)] if file.name == "__init__.py" else None
        spec = spec_from_file_location(
            fullname,
            file,
            loader=_HashedLoader(fullname, file, self),
            submodule_search_locations=packages,
        )
        assert spec is not None
        spec.cached = None
        return spec

    def source(self, file: Path) -> bytes:
        """Returns the bytes of a file of the folder that all parties compare."""
        name = self._name(file)
        if name not in self.files and self.open and file.suffix == ".py":
            self.files[name] = read_source(file)
        if name not in self.files:
            compiled = file.suffix != ".py"
            raise ConfigError(
                "the job imports it, and it is not among the files that the parties compare",
                remedy="a compiled module belongs in an installed package"
                if compiled
                else "import it by its name, or while the job itself is imported",
                subject=f"file {name} of the job's folder",
            )
        return self.files[name]

    def _name(self, file: Path) -> str:
        return file.relative_to(self.folder).as_posix()


class _HashedLoader(SourceFileLoader):
    """Compiles the bytes of a job's importer, never a cached file."""

    def __init__(self, fullname: str, file: Path, importer: JobImporter) -> None:
        super().__init__(fullname, str(file))
        self._file, self.importer = file, importer

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.importer.source(self._file), self.path)

    def get_data(self, path: str) -> bytes:
        return self.importer.source(self._file) if path == self.path else super().get_data(path)


def _module_name(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _forget(name: str, folder: Path) -> None:
    """Lets a module of a job be loaded again; raises if one from elsewhere has its name."""
    module = sys.modules.get(name)
    if module is None:
        return
    loader = getattr(module.__spec__, "loader", None)
    file = getattr(module, "__file__", None)
    if not isinstance(loader, _HashedLoader) and not Path(file or "/").is_relative_to(folder):
        raise ConfigError(
            f"another module {name!r} is loaded already, so that this file would be compared and "
            "not run",
            remedy="give the file another name",
            subject=f"module {name} of the job's folder",
        )
    del sys.modules[name]
