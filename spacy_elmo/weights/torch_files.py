"""Read state dicts of PyTorch: today's files, which are zips, and those from before 2020. No code is run."""

import io
import warnings
import zipfile
from typing import Any, Dict, List, Mapping

import torch

from ..errors import Errors
from .limits import MIB, listed
from .sources import Source, decoding
from .tensor_map import Array
from .torch_scan import PickleScan, Refused, Storage, find_problems, inner_state

ZIP_MAGIC = b"PK\x03\x04"
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickle of that number
KIND = "a state dict of PyTorch"
MAX_PICKLE_BYTES = 16 * MIB
MAX_MEMBERS = 100_000


def read_state_dict(source: Source) -> Dict[str, Array]:
    """Read the tensors of a file of `torch.save`.

    source (Source): A file, or a member of a zip.
    RETURNS (Dict[str, Array]): Arrays by name; bfloat16 as float32.
    RAISES (ValueError): EL020 and EL022 if it is missing or damaged, EL303 if it is no state dict, would run code, or
        declares more than it has.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    return to_float_arrays(read_tensors(source.read_bytes(), source))


def read_tensors(content: bytes, where: object) -> Dict[str, torch.Tensor]:
    """The same for the content of a file, as tensors.

    content (bytes): A file of `torch.save`.
    where (object): Its source, for messages.
    RETURNS (Dict[str, Tensor]): On the CPU, by name.
    RAISES (ValueError): EL022 and EL303, see `read_state_dict`.
    """
    return _load(io.BytesIO(content), where)


def to_float_arrays(tensors: Mapping[str, torch.Tensor]) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): In NumPy; bfloat16, which NumPy does not have, as float32."""
    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
        for name, tensor in tensors.items()
    }


def _load(file: Any, where: object) -> Dict[str, torch.Tensor]:
    problems = _scan(file)
    if problems:
        raise ValueError(Errors.EL303.format(path=where, n_problems=len(problems), problems=listed(problems)))
    file.seek(0)
    with decoding(where, KIND), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, on old storages
        found: Any = torch.load(file, map_location="cpu", weights_only=True)
    return dict(inner_state(found))


def _scan(file: Any) -> List[str]:
    """RETURNS (List[str]): Why the file cannot be read safely."""
    n_bytes = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = file.read(len(LEGACY_START))
    file.seek(0)
    try:
        if start.startswith(ZIP_MAGIC):
            return _scan_zip(file, n_bytes)
        if start == LEGACY_START:
            return _scan_legacy(file, n_bytes)
    except Refused as error:
        return [str(error)]
    except Exception as error:  # of zipfile and pickletools, which raise many kinds
        return [f"it is damaged: {error or type(error).__name__}"]
    return ["it is not a file of `torch.save`"]


def _scan_zip(file: Any, n_bytes: int) -> List[str]:
    scan = PickleScan()
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        sizes = {member.filename: member.file_size for member in members}
        pickles = [name for name in sizes if name.endswith("/data.pkl")]
        problems = _member_problems(members, n_bytes)
        if len(pickles) != 1 or any(name.endswith("/constants.pkl") for name in sizes):
            problems.append("it does not have one data.pkl, or has code of TorchScript")
        elif sizes[pickles[0]] > MAX_PICKLE_BYTES:
            problems.append(f"its data.pkl has {sizes[pickles[0]]:,} bytes, should have at most {MAX_PICKLE_BYTES:,}")
        if problems:
            return problems
        state = scan.value(archive.read(pickles[0]))
    folder = pickles[0].removesuffix("data.pkl") + "data/"
    return [*_storage_problems(scan, sizes, folder), *find_problems(state, n_bytes)]


def _member_problems(members: List[zipfile.ZipInfo], n_bytes: int) -> List[str]:
    if len(members) > MAX_MEMBERS or len({member.filename for member in members}) != len(members):
        return ["it has too many members, or several of one name"]
    is_plain = all(member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1 for member in members)
    problems = [] if is_plain else ["it has compressed or encrypted members"]
    if sum(member.file_size for member in members) > n_bytes:
        problems.append("its members declare more bytes than it has")
    return problems


def _storage_problems(scan: PickleScan, sizes: Dict[str, int], folder: str) -> List[str]:
    problems = []
    for storage in scan.storages.values():
        found = sizes.get(folder + storage.key)
        if found != storage.n_bytes:
            held = "is missing" if found is None else f"has {found:,} bytes"
            problems.append(f"storage {storage.key[:40]} {held}, should have {storage.n_bytes:,} bytes")
    return problems


def _scan_legacy(file: Any, n_bytes: int) -> List[str]:
    """A file of five pickles, then of each storage its length in 8 bytes and its numbers."""
    scan = PickleScan()
    magic, version, _, state, keys = (scan.value(file) for _ in range(5))
    if magic != LEGACY_MAGIC or version != 1001 or not isinstance(keys, list):
        return ["it is not a file of `torch.save`"]
    if sorted(map(str, keys)) != sorted(scan.storages):
        return ["it lists other storages than its tensors have"]
    for storage in (scan.storages[key] for key in keys):
        problem = _legacy_problem(file, storage, n_bytes)
        if problem:
            return [problem]
    return find_problems(state, n_bytes)


def _legacy_problem(file: Any, storage: Storage, n_bytes: int) -> str:
    """Go past the numbers of a storage."""
    n = int.from_bytes(file.read(8), "little")
    if n != storage.n or file.tell() + storage.n_bytes > n_bytes:
        return f"storage {storage.key[:40]} has {n:,} numbers, should have {storage.n:,} within the file"
    file.seek(storage.n_bytes, io.SEEK_CUR)
    return ""
