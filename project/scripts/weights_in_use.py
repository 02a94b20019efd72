"""Which results are in tables and plots: those of the weights in use, beside those without a biLM."""

from collections import defaultdict
from typing import Any, Dict, Iterable, List, Optional, Tuple

import srsly

from spacy_elmo.weights.formats import PACKAGED_NAMES, locate
from spacy_elmo.weights.identity import digest_bilm

Result = Dict[str, Any]


def split_by_weights(results: List[Result]) -> Tuple[List[Result], List[Result]]:
    """RETURNS (Tuple[List[Result], List[Result]]): Results without a biLM or of the weights in use, and the others."""
    in_use = find_digests(results)
    kept = [result for result in results if _is_of(result["settings"], in_use)]
    return kept, [result for result in results if not _is_of(result["settings"], in_use)]


def find_digests(results: Iterable[Result]) -> Dict[str, Optional[str]]:
    """RETURNS (Dict[str, Optional[str]]): For each biLM and alternative the digest of its weights: of a packaged
    biLM as they are now, of others as in the newest result.
    """
    by_name: Dict[str, List[Result]] = defaultdict(list)
    for result in results:
        name, _ = _identify(result["settings"])
        if name:
            by_name[name].append(result)
    return {name: _packaged(name) or _newest(found) for name, found in sorted(by_name.items())}


def describe_weights(results: List[Result], layers: Dict[str, Result]) -> Optional[str]:
    """layers (Dict[str, Result]): Names and digests of biLMs in other files of results, by the name of the file.
    RETURNS (Optional[str]): Markdown: the weights that the tables are of, and how many results are in none; None
        without any weights.
    """
    records = {name: {"settings": record} for name, record in layers.items()}
    in_use = find_digests([*results, *records.values()])
    if not in_use:
        return None
    names = "; ".join(f"`{name}` {digest or 'not recorded'}" for name, digest in in_use.items())
    told = f"Weights, first digits of the sha256 of their file: {names}."
    n_others = sum(not _is_of(result["settings"], in_use) for result in results)
    if n_others:
        told += f" Results of other weights, not shown: {n_others}."
    return told


def note_earlier(record: Result) -> str:
    """record (Result): With "bilm" and "bilm_digest".
    RETURNS (str): Markdown, a paragraph if it was made with earlier weights of a packaged biLM; otherwise "".
    """
    digest = _packaged(record["bilm"])
    found = record.get("bilm_digest")
    if digest in (None, found):
        return ""
    return f"\n\nMeasured with earlier weights of `{record['bilm']}` ({found or 'not recorded'})."


def describe_pretraining(name: str, digest: Optional[str]) -> List[str]:
    """RETURNS (List[str]): Raw text, tokens read (those of all passes) and hours of a packaged biLM, from its meta
    data; empty cells for other and earlier weights, whose files are not named in a result.
    """
    if name not in PACKAGED_NAMES or digest != _packaged(name):
        return ["", "", ""]
    meta: Dict[str, Any] = srsly.read_json(locate(name) / "meta.json")
    training = meta["training"]
    hours = training["hours"] if "hours" in training else training["elapsed_s"] / 3600
    return [meta["corpus"]["name"], f"{training['n_tokens']:,}", f"{hours:.1f} h"]


def _identify(settings: Dict[str, Any]) -> Tuple[str, Optional[str]]:
    """RETURNS (Tuple[str, Optional[str]]): Name and digest of the weights that a result was made with; "" for none."""
    if settings.get("bilm"):
        return settings["bilm"], settings.get("bilm_digest")
    source = settings.get("source")
    return (f"{source['kind']} for {settings['task']}", source["digest"]) if source else ("", None)


def _is_of(settings: Dict[str, Any], in_use: Dict[str, Optional[str]]) -> bool:
    name, digest = _identify(settings)
    return not name or digest == in_use[name]


def _packaged(name: str) -> Optional[str]:
    return digest_bilm(name) if name in PACKAGED_NAMES else None


def _newest(results: List[Result]) -> Optional[str]:
    newest = max(results, key=lambda result: str(result.get("finished_at", "")))
    return _identify(newest["settings"])[1]
