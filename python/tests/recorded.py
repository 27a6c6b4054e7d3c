"""Recorded data of tests/data."""

import gzip
import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


def read(path: Path):
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)


def eplb_cases() -> list[Path]:
    return sorted((DATA / "eplb").glob("c*.json*"))


def gpt_oss_load():
    return read(DATA / "expert_loads" / "gpt_oss_20b_by_dataset.json")["sets"][0]["load"]
