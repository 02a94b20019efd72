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
ROLES = ["B-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1", "B-ARGM-TMP"]
# Texts of each recipe that it can learn from, of different lengths.
TEXTS = {
    "coref": [
        {
            "words": "Emma saw the old doctor . He greeted her , and she left him .".split(),
            "sentences": [[0, 6], [6, 15]],
            "clusters": [
                [[0, 0, "PER", "PROP"], [8, 8, "PER", "PRON"], [11, 11, "PER", "PRON"]],
                [[2, 4, "PER", "NOM"], [6, 6, "PER", "PRON"], [13, 13, "PER", "PRON"]],
            ],
        },
        {
            "words": "Rain fell . It stopped .".split(),
            "sentences": [[0, 3], [3, 6]],
            "clusters": [[[0, 0, "LOC", "NOM"], [3, 3, "LOC", "PRON"]]],
        },
    ],
    "nli": [
        {"premise_words": premise.split(), "hypothesis_words": hypothesis.split(), "label": label}
        for premise, hypothesis, label in [
            ("A man sleeps .", "A man is awake .", "contradiction"),
            ("Two dogs run in a field .", "Animals run .", "entailment"),
            ("A woman reads", "A woman reads a novel at home", "neutral"),
        ]
    ],
    "qa": [
        *(
            {
                "context": "It was built by Eiffel",
                "words": ["It", "was", "built", "by", "Eiffel"],
                "offsets": [[0, 2], [3, 6], [7, 12], [13, 15], [16, 22]],
                "qas": [{"question_words": question, "answers": [{"first": i, "last": 4, "text": answer}]}],
            }
            for question, i, answer in ((["Who", "?"], 4, "Eiffel"), (["How", "was", "it", "built"], 3, "by Eiffel"))
        ),
        LINES["qa"],
    ],
    "srl": [
        {"words": "She gave him the book yesterday".split(), "frames": [{"predicate": 1, "tags": ROLES}]},
        {"words": ["Go", "!"], "frames": [{"predicate": 0, "tags": ["B-V", "O"]}]},
    ],
    "sentiment": [
        {"text": "a fine , funny film .", "label": "positive"},
        {"text": "dull and far too long .", "label": "negative"},
    ],
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
