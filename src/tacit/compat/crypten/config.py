"""`crypten.cfg`: CrypTen's settings by name. docs/guides/crypten.md says which mean something."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...config import NO_DEALER, OWN, Config
from ...errors import ConfigError

# The functions of Tacit have no iterations to choose; CrypTen's settings of them change nothing.
DEFAULTS: dict[str, Any] = {
    "communicator.verbose": False,
    "debug.debug_mode": False,
    "debug.validation_mode": False,
    "encoder.precision_bits": 16,
    "functions.max_method": "log_reduction",
    "functions.exp_iterations": 8,
    "functions.reciprocal_method": "NR",
    "functions.reciprocal_nr_iters": 10,
    "functions.reciprocal_log_iters": 1,
    "functions.reciprocal_all_pos": False,
    "functions.reciprocal_initial": None,
    "functions.sqrt_nr_iters": 3,
    "functions.sqrt_nr_initial": None,
    "functions.sigmoid_tanh_method": "reciprocal",
    "functions.sigmoid_tanh_terms": 32,
    "functions.log_iterations": 2,
    "functions.log_exp_iterations": 8,
    "functions.log_order": 8,
    "functions.trig_iterations": 10,
    "functions.erf_iterations": 8,
    "mpc.active_security": False,
    "mpc.provider": "none",
    "mpc.protocol": "beaver",
}
# CrypTen's providers by who deals here. Nobody deals for "TFP": the first party could read all.
DEALERS = {"none": NO_DEALER, "TFP": NO_DEALER, "TTP": OWN}
PROTOCOLS = {"beaver": "additive"}  # others have Tacit's names


class Section:
    """The settings whose names begin alike, such as `cfg.encoder`, by the rest of their names."""

    def __init__(self, settings: Settings, name: str) -> None:
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        return self._settings[f"{self._name}.{name}"]

    def __setattr__(self, name: str, value: Any) -> None:
        self._settings[f"{self._name}.{name}"] = value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)


class Settings:
    """All settings, by dotted names: as attributes and as items.

    A party that is a thread has settings of its own, which begin as those of its program.
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_common", dict(DEFAULTS))
        object.__setattr__(self, "_thread", threading.local())

    @property
    def _values(self) -> dict[str, Any]:
        """The settings of this thread."""
        found: dict[str, Any] = getattr(self._thread, "values", self._common)
        return found

    def __getitem__(self, name: str) -> Any:
        if any(key.startswith(f"{name}.") for key in DEFAULTS):
            return Section(self, name)
        if name not in self._values:
            raise _unknown(name)
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise _unknown(name)
        _check(name, value)
        self._values[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @contextmanager
    def temp_override(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Within the context these settings have other values, in this thread."""
        with self.own(self._values):
            for name, value in settings.items():
                self[name] = value
            yield

    @contextmanager
    def own(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Within the context this thread has settings of its own, which begin as `values`."""
        before = dict(self._thread.__dict__)
        self._thread.values = dict(values)
        try:
            yield
        finally:
            self._thread.__dict__.clear()
            self._thread.__dict__.update(before)

    def snapshot(self) -> dict[str, Any]:
        """Returns a copy of this thread's settings, for the parties of a program."""
        return dict(self._values)

    def config(self, parties: int) -> Config:
        """Returns Tacit's settings of a new session with so many parties."""
        bits = self["encoder.precision_bits"]
        if parties == 1:
            return Config(protocol="cleartext", fraction_bits=bits, debug=self["debug.debug_mode"])
        name = self["mpc.protocol"]
        protocol = PROTOCOLS.get(name, name)
        dealer = DEALERS[self["mpc.provider"]] if protocol == "additive" else None
        return Config(protocol=protocol, fraction_bits=bits, dealer=dealer)


def _check(name: str, value: Any) -> None:
    if name == "mpc.provider" and value not in DEALERS:
        raise ConfigError(f"{name}={value!r}", limit=f"allowed are {', '.join(map(repr, DEALERS))}")
    if name == "mpc.active_security" and value:
        raise ConfigError(
            f"{name}={value!r}",
            limit="a protocol decides who may cheat",
            remedy='set mpc.protocol to "replicated-malicious" (3 parties) or "quad" (4)',
        )
    if name == "encoder.precision_bits":
        Config(fraction_bits=value)
    if name == "mpc.protocol":
        Config(protocol=PROTOCOLS.get(value, value))


def _unknown(name: str) -> ConfigError:
    known = ", ".join(DEFAULTS)
    return ConfigError(f"the setting {name!r} is not known", limit=f"known are {known}")


cfg = Settings()
