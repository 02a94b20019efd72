"""Find the files of a biLM at a path: in a folder, in an archive, or beside a file, for each format.

A file is recognized by its name or by its first bytes. Nothing but the names in archives is read before a format is
chosen.
"""

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from ..errors import Errors
from ..util import is_hidden
from .meta import META_NAME
from .other_files import kind_of_hdf5
from .sources import MIB, Source, TarMember, is_tar, is_zip, kind_of, list_sources, scan_tar, unreadable
from .tf_bundle import INDEX_SUFFIX, KIND, incomplete, is_sorted_table

# Names of files, of one format or several.
CONFIG_NAME, OPTIONS_NAME, VOCAB_NAME = "config.json", "options.json", "vocab.txt"  # in zips of NLPL with .gz


@dataclass(frozen=True)
class ModelFiles:
    """The files of a biLM.

    where (str): The folder or archive, or the file beside which they are.
    weights (Source): The file of the arrays, or one of several.
    sources (Mapping[str, Source]): All files that the biLM may have, by name relative to its folder.
    options (Optional[Source]): Its settings, where a format has them in a file of their own.
    vocab (Optional[Source]): One word per line.
    token_embeddings (Optional[Source]): Precomputed word vectors, under the name that our exporter uses.
    meta (Optional[Source]): meta.json, of this package or another program.
    """

    where: str
    weights: Source
    sources: Mapping[str, Source]
    options: Optional[Source] = None
    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None
    meta: Optional[Source] = None

    @property
    def paths(self) -> List[Path]:
        """RETURNS (List[Path]): The files on disk, sorted; an archive is one file."""
        named = (self.weights, self.options, self.vocab, self.token_embeddings, self.meta)
        found = {source.path for source in (*self.sources.values(), *named) if source is not None}
        return sorted(path for path in found if path.suffix != ".part")  # of a download that is not complete


class Listing:
    """A path that exists, and the files there.

    path (Path): A folder or file.
    kind (str): "folder", or the format of a file by its first bytes, see `kind_of`, of archives also by its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kind = "folder" if path.is_dir() else Source(path).kind()
        if not self.kind and is_tar(path):
            self.kind = "tar"
        elif not self.kind and (path.suffix == ".zip" or is_zip(path)):  # zipfile does not recognize a truncated one
            self.kind = "zip"

    @property
    def given(self) -> Optional[Source]:
        """RETURNS (Optional[Source]): The file itself; None for a folder or archive."""
        return None if self.kind in ("folder", "zip", "tar") else Source(self.path)

    @property
    def where(self) -> str:
        """RETURNS (str): The folder or archive with the files."""
        return str(self.path if self.given is None else self.path.parent)

    @cached_property
    def sources(self) -> Dict[str, Source]:
        """RETURNS (Dict[str, Source]): Files directly in the folder, all in the archive, or those beside the file.
        RAISES (ValueError): EL022 for an archive that is damaged or refused.
        """
        if self.kind != "tar":
            return list_sources(self.path if self.given is None else self.path.parent)
        names, contents = scan_tar(self.path, lambda name: name.endswith((".json", ".txt", ".options_file")))
        return {name: TarMember(self.path, name, contents.get(name)) for name in names if not is_hidden(name)}

    def folders(self, is_wanted: Callable[[str], bool]) -> Dict[str, Dict[str, Source]]:
        """is_wanted (Callable[[str], bool]): Whether a file of this name tells that a folder has a biLM.
        RETURNS (Dict[str, Dict[str, Source]]): Each folder with such a file, and its files by name relative to it;
            the outermost first. Of an archive all folders, otherwise only that of `sources`, "".
        """
        names = [name for name in self.sources if is_wanted(name.rpartition("/")[2])]
        roots = sorted({name[: name.rfind("/") + 1] for name in names}, key=lambda root: (root.count("/"), root))
        return {
            root: {name.removeprefix(root): found for name, found in self.sources.items() if name.startswith(root)}
            for root in roots
        }


def _only_folder(path: Path, found: Mapping[str, ModelFiles]) -> Optional[ModelFiles]:
    """RAISES (ValueError): For several models in a zip."""
    if len(found) > 1:
        names = ", ".join(root.rstrip("/") or "the top" for root in found)
        raise ValueError(
            f"'{path}' has {len(found)} biLMs ({names}), but should have one. Unpack it, and pass one of its folders."
        )
    return next(iter(found.values()), None)


def only_source(
    found: Sequence[Source], where: object, kind: str, wanted: Iterable[str], beside: str = "an HDF5 file"
) -> Source:
    """found (Sequence[Source]): Files of a kind, named `wanted` as a rule.
    where (object), beside (str): The file that they belong to, and what it is.
    RETURNS (Source): The only one.
    RAISES (ValueError): EL020 if there is none, EL021 if there are several.
    """
    if not found:
        reason = f"it is {beside} without {kind} in the same folder"
        names = f"{' or '.join(wanted)}, or a file given by `options=...` (`--options`)"
        raise ValueError(Errors.EL020.format(path=where, reason=reason, wanted=names))
    if len(found) > 1:
        names = ", ".join(source.name for source in found)
        raise ValueError(Errors.EL021.format(path=where, n=len(found), kind=kind, names=names))
    return found[0]


# The native format: a folder, one of the two files in it, or a zip of the folder. The weights may have any name.

WEIGHTS_NAME = "weights.safetensors"
LEXICON_NAME = "lexicon.json"  # symbols of a biLM with a token embedder
NETWORK_PREFIX = "bilm."  # of the arrays of the network


def detect_native(listing: Listing) -> Optional[ModelFiles]:
    """RAISES (ValueError): For a zip with several biLMs."""
    given = listing.given
    is_weights = given is not None and (given.name == WEIGHTS_NAME or has_network(given))
    if listing.kind == "tar" or (given is not None and given.name != CONFIG_NAME and not is_weights):
        return None
    found: Dict[str, ModelFiles] = {}
    for root, inside in listing.folders(CONFIG_NAME.__eq__).items():
        weights = [source for name, source in inside.items() if name == WEIGHTS_NAME]
        weights = weights or [source for name, source in inside.items() if "/" not in name and has_network(source)]
        if given is not None and is_weights:
            weights = [given]
        if len(weights) == 1:
            found[root] = ModelFiles(listing.where, weights[0], inside, inside[CONFIG_NAME], inside.get(VOCAB_NAME))
    return _only_folder(listing.path, found)


def has_network(source: Source) -> bool:
    """RETURNS (bool): Whether this is a safetensors file with the arrays of a network."""
    head = source.read_head()
    if kind_of(head) != "safetensors":
        return False
    return f'"{NETWORK_PREFIX}'.encode() in source.read_head(8 + int.from_bytes(head[:8], "little"))


# ELMoForManyLangs: a folder or a zip, or one of the two files with weights.

ENCODER_NAME, EMBEDDER_NAME = "encoder.pkl", "token_embedder.pkl"
MARKERS = (ENCODER_NAME, EMBEDDER_NAME)


def detect_manylangs(listing: Listing) -> Optional[ModelFiles]:
    """RAISES (ValueError): For a zip with several biLMs."""
    if listing.kind == "tar" or (listing.given is not None and listing.given.name not in MARKERS):
        return None
    found: Dict[str, ModelFiles] = {}
    for root, inside in listing.folders(MARKERS.__contains__).items():
        if listing.kind != "zip":  # its architecture may be in a folder in it
            folder = Path(listing.where)
            inside = list_sources(folder, [place.name for place in folder.iterdir() if place.is_dir()])
        weights = next(inside[name] for name in MARKERS if name in inside)
        found[root] = ModelFiles(listing.where, weights, inside)
    return _only_folder(listing.path, found)


# AllenNLP: a tar archive, a folder, or a state dict, beside which its config may be.

ARCHIVE_NAME = "model.tar.gz"
ALLENNLP_WEIGHTS = ("weights.th", "best.th")  # in an archive; in the folder of a training
# Of the epochs of a training: model_state_epoch_3.th; in AllenNLP 2 model_state_e3_b0.th.
EPOCH_PATTERN = re.compile(r"model_state_e.*\.th")
TRAINING_STATE = "training_state_"  # the optimizer
STATE_SUFFIXES = (".th", ".pt", ".pth")
INNER_FOLDERS = ("vocabulary", "fta")


def detect_allennlp(listing: Listing) -> Optional[ModelFiles]:
    """RAISES (ValueError): For a tar archive that is damaged or refused."""
    path, given = listing.path, listing.given
    if given is not None:
        is_named = given.name.endswith(STATE_SUFFIXES) and not listing.kind
        if not is_named and listing.kind != "pickle" and not _is_state_dict(given):
            return None
        beside = {**list_sources(path.parent, INNER_FOLDERS), given.name: given}
        return ModelFiles(listing.where, given, beside)
    if listing.kind == "zip":
        return None
    for inside in listing.folders(
        lambda name: name in ALLENNLP_WEIGHTS or bool(EPOCH_PATTERN.fullmatch(name))
    ).values():
        inside = list_sources(path, INNER_FOLDERS) if listing.kind == "folder" else inside
        epochs = [name for name in inside if EPOCH_PATTERN.fullmatch(name)]  # the newest epoch, and batch in it
        epochs.sort(key=lambda name: [int(number) for number in re.findall(r"\d{1,18}", name)], reverse=True)
        best = next(name for name in (*ALLENNLP_WEIGHTS, *epochs) if name in inside)
        if best in ALLENNLP_WEIGHTS or not (path / ARCHIVE_NAME).is_file():
            return ModelFiles(listing.where, inside[best], inside)
    is_packed = listing.kind == "folder" and (path / ARCHIVE_NAME).is_file()
    return detect_allennlp(Listing(path / ARCHIVE_NAME)) if is_packed else None


def detect_state_dict(folder: Path) -> Optional[ModelFiles]:
    """folder (Path): A folder in no other format.
    RETURNS (Optional[ModelFiles]): Its files, if there is a state dict of any name among them.
    RAISES (ValueError): EL021 if there are several.
    """
    sources = list_sources(folder, INNER_FOLDERS)
    names = [name for name in sources if "/" not in name and not name.startswith(TRAINING_STATE)]
    found = [name for name in names if _is_state_dict(sources[name])]
    if not found:  # the reader says how to convert it
        found = [name for name in names if sources[name].kind() == "pickle"][:1]
    if len(found) > 1:
        raise ValueError(Errors.EL021.format(path=folder, n=len(found), kind="state dicts", names=", ".join(found)))
    return ModelFiles(str(folder), sources[found[0]], sources) if found else None


def _is_state_dict(source: Source) -> bool:
    kind = source.kind()
    return kind == "torch" or (kind == "safetensors" and not has_network(source))


# bilm-tf: options.json and an HDF5 file in a folder or zip, or one of the two, with the other in the same folder.

HDF5_SUFFIXES = (".hdf5", ".h5")
TOKEN_EMBEDDINGS_NAME = "token_embeddings.hdf5"


def detect_bilm_tf(listing: Listing) -> Optional[ModelFiles]:
    """RAISES (ValueError): EL020 for an HDF5 file without options, EL021 if there are several candidates, EL022 for a
    damaged zip.
    """
    given = listing.given
    if listing.kind == "hdf5" or (given is not None and given.name.endswith(HDF5_SUFFIXES)):
        return _beside_weights(Source(listing.path), listing.sources)
    if given is not None and given.name.endswith(OPTIONS_NAME):
        return _beside_options(given, listing.sources)
    return _pick(str(listing.path), listing.sources) if listing.kind in ("folder", "zip") else None


def find_options(sources: Iterable[Source]) -> List[Source]:
    """RETURNS (List[Source]): The files whose names end in options.json."""
    return [source for source in sources if source.name.endswith(OPTIONS_NAME)]


def _beside_weights(weights: Source, beside: Mapping[str, Source]) -> ModelFiles:
    """The options with the same prefix as the weights, else options.json, else the only options in the folder."""
    stem = Path(weights.name).stem
    prefix = re.sub(r"(weights|model)$", "", stem)
    names = [f"{prefix}{OPTIONS_NAME}", f"{stem}_{OPTIONS_NAME}", f"{stem}.json", OPTIONS_NAME]
    options = next((beside[name] for name in names if name in beside), None)
    if options is None:
        options = only_source(find_options(beside.values()), str(weights), "options", names)
    vocab, meta = (beside.get(prefix + name, beside.get(name)) for name in (VOCAB_NAME, META_NAME))
    return ModelFiles(str(weights), weights, {}, options, vocab, beside.get(TOKEN_EMBEDDINGS_NAME), meta)


def _beside_options(options: Source, beside: Mapping[str, Source]) -> Optional[ModelFiles]:
    """The files in the folder of the options: those with the same prefix, if weights are among them."""
    prefix = options.name.removesuffix(OPTIONS_NAME)
    others = {name: source for name, source in beside.items() if not name.endswith(OPTIONS_NAME)}
    named = {name: others[name] for name in others if name.startswith(prefix) or not name.endswith(HDF5_SUFFIXES)}
    is_named = any(name.endswith(HDF5_SUFFIXES) for name in named)
    return _pick(str(options), {options.name: options, **(named if is_named else others)})


def _pick(where: str, sources: Mapping[str, Source]) -> Optional[ModelFiles]:
    """Exactly one options file and one weights file among the files of a folder or zip, or None."""
    found = sources.values()
    options = find_options(found)
    others = [source for source in found if not source.name.endswith(TOKEN_EMBEDDINGS_NAME)]
    named = [source for source in others if source.name.endswith(HDF5_SUFFIXES)]
    weights = [source for source in named if source.kind() in ("hdf5", "")]  # damaged ones, too, for their error
    if options and not weights:  # another suffix
        weights = [source for source in others if source.kind() == "hdf5"]
    if len(weights) > 1:  # vectors that were computed with the weights may lie beside them
        weights = [source for source in weights if source.member or not kind_of_hdf5(source.path)] or weights
    if not weights or not options:
        return None
    return ModelFiles(
        where,
        only_source(weights, where, "HDF5 weights", ["weights.hdf5"]),
        {},
        only_source(options, where, "options", [OPTIONS_NAME]),
        next((source for source in found if source.name == VOCAB_NAME), None),
        next((source for source in found if source.name == TOKEN_EMBEDDINGS_NAME), None),
        next((source for source in found if source.name == META_NAME), None),
    )


# TensorFlow: a module of TF-Hub, or a checkpoint: a folder, one of its files, or their prefix.

STATE_NAME = "checkpoint"  # text with the name of the newest checkpoint
MAX_STATE_BYTES = MIB
NEWEST = re.compile(rb'^[ \t]*model_checkpoint_path\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
SHARDS = re.compile(r"-\?{5}-of-\d{5}$")  # all files of an old checkpoint in format V1, in a file `checkpoint`
SHARD = re.compile(r"(?P<prefix>.+?)(\.data)?-\d{5}-of-\d{5}")
GRAPHS = ("saved_model.pb", "tfhub_module.pb")
HUB_INDEX = Path("variables") / "variables.index"
HUB_WANTED = f"a folder of a TF-Hub module with {' or '.join(GRAPHS)} and {HUB_INDEX.as_posix()}"


def detect_tf_hub(listing: Listing) -> Optional[ModelFiles]:
    """RAISES (ValueError): EL020 for a module without variables."""
    path = listing.path
    folder = path.parent.parent if path.parts[-2:] == HUB_INDEX.parts else path
    if not any((folder / name).is_file() for name in GRAPHS):
        return None
    if not (folder / HUB_INDEX).is_file():
        reason = f"{HUB_INDEX.as_posix()} is missing"
        raise ValueError(Errors.EL020.format(path=path, reason=reason, wanted=HUB_WANTED))
    return ModelFiles(str(folder), Source(folder / HUB_INDEX), _files_of(folder / HUB_INDEX))


def detect_tf_checkpoint(listing: Listing) -> Optional[ModelFiles]:
    """RAISES (ValueError): EL020 without options, EL021 if there are several; see `find_checkpoint`."""
    file = find_checkpoint(listing.path)
    return None if file is None else with_options(file)


def with_options(file: Path, options: Optional[Source] = None) -> ModelFiles:
    """file (Path): From `find_checkpoint`.
    options (Optional[Source]): Its options, which may be in another folder; by default those beside it.
    RETURNS (ModelFiles): The files of the checkpoint.
    RAISES (ValueError): EL020 without options, EL021 if there are several.
    """
    beside = list_sources(file.parent)
    if options is None:
        own = [beside[OPTIONS_NAME]] if OPTIONS_NAME in beside else find_options(beside.values())
        options = only_source(own, file, "options", [OPTIONS_NAME], "a TensorFlow checkpoint")
    # The vocabulary of the released models is vocab-2016-09-10.txt.
    named = [name for name in beside if name.startswith("vocab") and name.endswith(".txt")]
    vocab = beside.get(VOCAB_NAME, beside[named[0]] if len(named) == 1 else None)
    embeddings = beside.get(TOKEN_EMBEDDINGS_NAME)
    return ModelFiles(str(file), Source(file), _files_of(file), options, vocab, embeddings)


def find_checkpoint(path: Path) -> Optional[Path]:
    """Find the file of a checkpoint with the names of its variables.

    path (Path): A folder, a file of a checkpoint, or the prefix of its files, which need not exist itself.
    RETURNS (Optional[Path]): PREFIX.index, or the first file of format V1; None if this is not a checkpoint.
    RAISES (ValueError): EL022 for a damaged file `checkpoint`, if the checkpoint that it names is missing; if
        there are several checkpoints, and none is named.
    """
    if path.is_dir():
        return _in_folder(path)
    if path.name == STATE_NAME and path.is_file():
        return _in_folder(path.parent)
    if path.name.endswith(INDEX_SUFFIX) and (is_sorted_table(path) or _data_files(path)):
        return path
    match = SHARD.fullmatch(path.name)
    prefix = path.with_name(match["prefix"]) if match else path
    return _of_prefix(prefix.with_suffix("") if path.suffix == ".meta" else prefix)


def _in_folder(folder: Path) -> Optional[Path]:
    state = folder / STATE_NAME
    name = _newest(state) if state.is_file() else None
    if name is not None:
        found = _of_prefix(folder / name)
        if found is None:
            raise incomplete(state, f"{name}{INDEX_SUFFIX}")
        return found
    indices = [folder / name for name in list_sources(folder) if name.endswith(INDEX_SUFFIX)]
    indices = [file for file in indices if _data_files(file)]
    if len(indices) > 1:
        names = ", ".join(file.name for file in indices)
        raise ValueError(
            f"'{folder}' has {len(indices)} TensorFlow checkpoints ({names}), and no file 'checkpoint' that names "
            "the newest. Pass the path of one of the .index files."
        )
    return indices[0] if indices else None


def _newest(state: Path) -> Optional[str]:
    """The name in a file `checkpoint`, without its folder, which may be that of another machine."""
    match = NEWEST.search(Source(state).read_bytes(MAX_STATE_BYTES).removeprefix(BOM_UTF8))
    if match is None:
        return None
    path = ESCAPE.sub(lambda found: bytes([int(found[1], 8) % 256]) if found[1].isdigit() else found[1], match[1])
    name = SHARDS.sub("", re.split(r"[/\\]", path.decode("utf8", errors="replace"))[-1])
    if name in ("", ".", "..") or "\0" in name:
        raise unreadable(state, KIND, "the name of the newest checkpoint is empty")
    return name


def _of_prefix(prefix: Path) -> Optional[Path]:
    """The file of a checkpoint with this prefix: format V2, or format V1 in one file or several."""
    index = prefix.with_name(prefix.name + INDEX_SUFFIX)
    if index.is_file():
        return index
    return next((file for file in (prefix, *_matching(prefix, "")[:1]) if is_sorted_table(file)), None)


def _data_files(index: Path) -> List[Path]:
    return _matching(index.with_name(index.name.removesuffix(INDEX_SUFFIX)), ".data")


def _files_of(index: Path) -> Dict[str, Source]:
    return {file.name: Source(file) for file in (index, *_data_files(index))}


def _matching(prefix: Path, ending: str) -> List[Path]:
    if not prefix.parent.is_dir():
        return []
    pattern = re.compile(re.escape(prefix.name + ending) + r"-\d{5}-of-\d{5}")
    return sorted(file for file in prefix.parent.iterdir() if pattern.fullmatch(file.name))
