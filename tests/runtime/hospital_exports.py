"""Two hospitals' exports of the same study, as their systems write them, and what they declare."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tacit.tables import Category, Csv, Date, Number, Truth

WARDS = ["Chirurgie", "Innere", "Notaufnahme"]
FEATURES = {
    "Gewicht (kg)": Number(missing="mean"),
    "Kreatinin": Number(missing="indicator"),
    "Aufnahme": Date("2026-01-01", ["%d.%m.%Y", "%Y-%m-%d"]),
    "Geschlecht": Category(["f", "m"], missing="indicator"),
    "Station": Category(WARDS, other=True),
}
LABEL = {"Entlassen": Truth("ja", "nein")}
WIDTH = 1 + 2 + 1 + 3 + 4
CLINIC = {"path": "klinik.csv", "csv": Csv(decimal=",", thousands=".", encoding="cp1252")}
PRACTICE = {"path": "practice.csv", "csv": None}


def patients(count: int, seed: int) -> list[list[object]]:
    """Id, weight, creatinine, day of January, sex, ward, discharged; None is missing."""
    draw = np.random.default_rng(seed)
    rows: list[list[object]] = []
    for number in range(count):
        weight = None if draw.random() < 0.1 else round(float(draw.normal(75, 12)), 1)
        level = None if draw.random() < 0.2 else round(float(draw.normal(1, 0.3)), 2)
        ward = [*WARDS, "Geburtshilfe; Kreißsaal"][draw.integers(4)]
        sex = [None, "f", "m", "f", "m"][draw.integers(5)]
        discharged = (level or 1) + draw.normal() / 8 < 1
        rows.append([number, weight, level, int(draw.integers(1, 29)), sex, ward, discharged])
    return rows


def write_clinic(path: Path, rows: list[list[object]]) -> None:
    """Semicolons, decimal commas, cp1252, CRLF, an index without name, quotes where needed."""
    head = ["", "Gewicht (kg)", "Kreatinin", "Aufnahme", "Geschlecht", "Station", "Entlassen"]
    with path.open("w", newline="", encoding="cp1252") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\r\n")
        writer.writerow(head)
        for index, weight, level, day, sex, ward, out in rows:
            marks = ["" if x is None else str(x).replace(".", ",") for x in (weight, level)]
            said = "ja" if out else "nein"
            writer.writerow([index, *marks, f"{day:02}.01.2026", sex or "NA", ward, said])


def write_practice(path: Path, rows: list[list[object]]) -> None:
    """Commas, UTF-8 with a byte order mark, another order of columns, a note with line breaks."""
    head = ["patient", "note", "Entlassen", "Station", "Geschlecht", "Aufnahme"]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow([*head, "Kreatinin", "Gewicht (kg)"])
        for index, weight, level, day, sex, ward, out in rows:
            note = 'said "fine",\nthen left'
            date = f"2026-01-{day:02}"
            cells = [f"P{index}", note, "ja" if out else "nein", ward, sex or "", date]
            writer.writerow([*cells, "NaN" if level is None else level, weight])


def expected(rows: list[list[object]]) -> np.ndarray:
    """What the exports mean, computed row by row."""
    weights = [row[1] for row in rows if row[1] is not None]
    made = []
    for _, weight, level, day, sex, ward, _ in rows:
        wards = [float(ward == name) for name in WARDS]
        known = [np.mean(weights) if weight is None else weight, level or 0, level is None]
        made.append([*known, day - 1, sex == "f", sex == "m", sex is None, *wards, not any(wards)])
    return np.array(made, np.float32)
