"""Real data, scikit-learn's digits, written in every format."""

from __future__ import annotations

import csv
import gzip
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

PIXELS, LABELS = load_digits(return_X_y=True)


def idx(array: np.ndarray) -> bytes:
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write_csv(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"p{i}" for i in range(x.shape[1])), "label"])
        writer.writerows([*map(float, row), int(label)] for row, label in zip(x, y, strict=True))


def columns(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {f"p{i}": x[:, i] for i in range(x.shape[1])} | {"label": y}


def write_pictures(folder: Path, x: np.ndarray, y: np.ndarray, suffix: str = ".png") -> None:
    """A subfolder for each digit; one picture is called victim."""
    for number, (row, label) in enumerate(zip(x, y, strict=True)):
        place = folder / f"digit {label}"
        place.mkdir(parents=True, exist_ok=True)
        name = f"{number:04}" if number else "victim"
        picture = Image.fromarray((row.reshape(8, 8) * 15).astype(np.uint8))
        picture.convert("RGB").save(place / f"{name}{suffix}")


def write_all(folder: Path, count: int) -> None:
    """The first digits, as every format has them."""
    x, y = PIXELS[:count], LABELS[:count]
    np.save(folder / "x.npy", x)
    np.savez(folder / "xy.npz", x=x, y=y)
    np.savez_compressed(folder / "packed.npz", x=x.astype(np.float32), y=y)
    write_csv(folder / "table.csv", x, y)
    np.savetxt(folder / "matrix.csv", x, fmt="%g", delimiter=",")
    pq.write_table(pa.table(columns(x, y)), folder / "table.parquet")
    pq.write_table(pa.table(columns(x, y)), folder / "packed.parquet", compression="zstd")
    save_file({"x": x.astype(np.float32), "y": y}, folder / "xy.safetensors")
    (folder / "images-idx3-ubyte").write_bytes(idx(x.reshape(-1, 8, 8)))
    (folder / "labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(y)))
    for suffix in (".png", ".jpg", ".bmp", ".webp"):
        write_pictures(folder / f"pictures{suffix[1:]}", x[:5], y[:5], suffix)
