"""Data sets of a few lines, in the format of the real ones."""

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List

FOLDERS = {  # a folder of each recipe's data below --data
    "coref": "litbank",
    "nli": "snli-cad",
    "qa": "squadshifts-newwiki",
    "sentiment": "sentiment/sentence-polarity",
    "srl": ".",
}
LINES = {
    "coref": {"words": ["She", "sings"], "sentences": [[0, 2]], "clusters": [[[0, 0]]]},
    "nli": {"premise_words": ["She", "sings"], "hypothesis_words": ["Yes"], "label": "neutral"},
    "qa": {
        "context": "She sings",
        "words": ["She", "sings"],
        "offsets": [[0, 3], [4, 9]],
        "qas": [{"question_words": ["Who", "?"], "answers": [{"first": 0, "last": 0, "text": "She"}]}],
    },
    "sentiment": {"text": "a fine film", "label": "positive"},
    "srl": {"words": ["She", "sings"], "frames": [{"predicate": 1, "tags": ["B-ARG0", "B-V"]}]},
}


def write_jsonl(path: Path, lines: List[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def write_parts(folder: Path, lines: List[Dict[str, Any]]) -> Path:
    """The same lines as training, development and test part. Returns the folder."""
    for name in ("train", "dev", "test"):
        write_jsonl(folder / f"{name}.jsonl.gz", lines)
    return folder
