"""Files of ELMoForManyLangs with seeded random damage: they load, or there is an error of ours with its code."""

import json
import random
import resource
import warnings

import pytest
from reference.seeded_manylangs import make_architecture, write_manylangs, write_zip
from weights.fuzzing import is_ours

from spacy_elmo import load_bilm

SMALL = {"encoder": {"n_layers": 1, "dim": 3}, "token_embedder": {"filters": [[1, 2]]}}
NAMES = [
    *(f"{kind}/{name}" for kind in ("new", "old") for name in ("encoder.pkl", "token_embedder.pkl")),
    *(f"new/{name}" for name in ("char.dic", "word.dic", "config.json", "network.json")),
    *("new.zip", "old.zip"),
]
STRANGE = [None, True, -1, 0, 1.5, 2**31, 10**30, 1e308, float("nan"), "", "text", [], {}, [[]], ["x", None]]
MAX_GROWTH_KB = 300_000
N_SLOW = 300  # of each file; 2,000 of each were tried once


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model in today's and in the old format of PyTorch, as folder and as zip."""
    folder = tmp_path_factory.mktemp("mutations")
    for kind in ("new", "old"):
        write_manylangs(folder / kind, make_architecture(**SMALL), legacy=kind == "old")
        write_zip(folder / f"{kind}.zip", folder / kind)
    return folder


def damage(content: bytes, draw: random.Random) -> bytes:
    """Flip bits, overwrite, delete, cut, repeat, or put a number in place of another."""
    changed, start = bytearray(content), draw.randrange(len(content))
    stop = min(len(content), start + draw.choice([1, 1, 4, 8, 64]))
    kind = draw.randrange(7)
    if kind == 0:
        changed[start] ^= 1 << draw.randrange(8)
    elif kind == 1:
        changed[start:stop] = draw.randbytes(stop - start)
    elif kind == 2:
        changed[start:stop] = draw.choice([b"\xff", b"\0", b"\x7f"]) * (stop - start)
    elif kind == 3:
        del changed[start:stop]
    elif kind == 4:
        del changed[start:]
    elif kind == 5:
        changed[start:start] = changed[start:stop]
    else:
        numbers = [at for at, byte in enumerate(content) if chr(byte) in "KMJ"]  # opcodes of integers
        at = draw.choice(numbers) if numbers else start
        changed[at + 1 : at + 2] = draw.randbytes(1)
    return bytes(changed)


def damage_json(content: bytes, draw: random.Random) -> bytes:
    """Put a strange value into some place of the tree, or take the place away."""
    tree = json.loads(content)
    places = [(tree, key) for key in tree]
    for node, key in places:
        inner = node[key]
        places += [(inner, below) for below in inner] if isinstance(inner, dict) else []
        places += [(inner, i) for i in range(len(inner))] if isinstance(inner, list) else []
    node, key = draw.choice(places)
    if draw.random() < 0.2:
        del node[key]
    else:
        node[key] = draw.choice(STRANGE)
    return json.dumps(tree).encode()


def check(models, name: str, n_mutations: int) -> int:
    path = models / name
    content, draw, n_errors = path.read_bytes(), random.Random(name), 0
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        for _ in range(n_mutations):
            is_tree = name.endswith(".json") and draw.random() < 0.7
            path.write_bytes((damage_json if is_tree else damage)(content, draw))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    load_bilm(models / name.split("/")[0]).embed([["the", "a"]])
            except (ValueError, OSError) as error:
                n_errors += 1
                assert is_ours(error), (name, error)
    finally:
        path.write_bytes(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MAX_GROWTH_KB
    return n_errors


@pytest.mark.issue(17)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_loads_or_gives_an_error_of_ours(models, name):
    load_bilm(models / name.split("/")[0])
    assert check(models, name, 20) > 0


@pytest.mark.slow
@pytest.mark.issue(17)
@pytest.mark.parametrize("name", NAMES)
def test_many_damaged_files_load_or_give_an_error_of_ours(models, name):
    assert check(models, name, N_SLOW) > 20
