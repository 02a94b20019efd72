"""The reader of all formats: files on disk and in archives, plain or compressed; text, JSON and HDF5.

One limit holds for all of them: what is compressed expands to at most `MAX_EXPANSION` times its size and 64 MiB. A zip
or tar is read in memory: nothing is unpacked to disk, and no link is followed.
"""

import errno
import gzip
import io
import json
import tarfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from ..errors import Errors
from ..files import CompressedStreams, check_space, is_hidden
from ..util import listed

MIB = 1024 * 1024
MAX_EXPANSION = 20  # uncompressed weights and words are at most a few times larger than their files
SAFETENSORS_HEADER = 100_000_000  # bytes; the maximum of the format

HEAD_BYTES = 512
GZIP_SUFFIX, GZIP_MAGIC, BZIP2_MAGIC, XZ_MAGIC = ".gz", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"
COMPRESSION_MAGICS = (GZIP_MAGIC, BZIP2_MAGIC, XZ_MAGIC)
ZIP_MAGIC = b"PK\x03\x04"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that begins files of torch before version 1.6
PICKLED = (*(bytes([0x80, protocol]) for protocol in (2, 3, 4, 5)), b"(dp0\n", b"}q\0", b"ccollections\n")
USTAR_MAGIC, USTAR_OFFSET = b"ustar", 257
TAR_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tbz", ".tbz2", ".txz", ".tar")
# Names of files, of several formats; in zips of NLPL with .gz.
CONFIG_NAME, OPTIONS_NAME, VOCAB_NAME = "config.json", "options.json", "vocab.txt"
HDF5_SUFFIXES = (".hdf5", ".h5")
NUMBERS = "fiu"  # kinds of dtypes to read: floating point, and integers, for which `find_misfits` reports an error
# Names in files of vectors, of `elmo embed`, AllenNLP and bilm-tf.
FIRST_VECTORS = ("0", "sentence_to_index")
VECTORS = "it is a file of vectors, as `elmo embed` writes it. Give the biLM that computes them"
WEIGHTS_WANTED = "weights of a biLM in any known format"
DAMAGED = (
    "The file is truncated, damaged or in another format. Compare its size with the original, and download it again"
)
ACCESS = "Check its permissions and the disk"
LOCKED = (
    "Another program has it open for writing: wait until it is closed there. If there is none, as on network disks "
    "that cannot lock files, set the environment variable HDF5_USE_FILE_LOCKING=FALSE"
)

PathLike = Union[str, Path]
Array = NDArray[Any]
Shape = Tuple[int, ...]


@dataclass(frozen=True)
class File:
    """A file on disk, or a member of a zip or tar; any of them may be compressed with gzip, bzip2 or xz. `member` is
    the name inside the archive, as it is stored there, `tar` the content of a member of a tar.
    """

    path: Path
    member: Optional[str] = None
    tar: Optional[memoryview] = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The last component of the name, without `.gz`. In zips of Windows it may follow a backslash."""
        stored = self.path.name if self.member is None else PurePosixPath(self.member.replace("\\", "/")).name
        return _plain_name(stored)

    def __str__(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @property
    def head(self) -> bytes:
        """The first 512 bytes, decompressed, of safetensors the whole header; b"" for a damaged file. They are read
        once. It raises the errors of `read_bytes`, but for damages, which the reader of the format reports.
        """
        return self._start[0]

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed, whatever its name: browsers decompress without renaming."""
        return self._start[1]

    @cached_property
    def kind(self) -> str:
        """The format by the first bytes, see `kind_of_file`."""
        return kind_of_file(self.head)

    @cached_property
    def _start(self) -> Tuple[bytes, bool]:
        _require_file(self.path)
        head, is_compressed = b"", False
        try:
            with self._open() as stored:
                content = decompress(stored)
                is_compressed = content is not stored
                head = content.read(HEAD_BYTES)
                if kind_of_file(head) == "safetensors":
                    head += content.read(max(0, 8 + int.from_bytes(head[:8], "little") - HEAD_BYTES))
        except Exception as error:  # many kinds, of zipfile and the decompressors
            if _is_of_system(error):
                raise _denied(self, error) from error
        return head, is_compressed

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.tar is not None:
            yield io.BytesIO(self.tar)
        elif self.member is None:
            with self.path.open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
                yield stream

    def read_bytes(self) -> bytes:
        """The content, decompressed.

        RAISES (ValueError): EL020 if there is no such file, EL022 for a damaged archive, EL036 if it expands too far.
        RAISES (OSError): EL037 if the operating system cannot read it.
        """
        content = self._read_stored()
        if not content.startswith(COMPRESSION_MAGICS):
            return content
        kind = "gzip" if content.startswith(GZIP_MAGIC) else "bzip2 or xz"
        with decoding(self, kind), decompress(io.BytesIO(content)) as stream:
            expanded = stream.read(max_expanded(len(content)) + 1)
        check_expansion(self, len(expanded), len(content))
        return expanded

    def _read_stored(self) -> bytes:
        if self.tar is not None:
            return bytes(self.tar)
        if self.member is None:
            _require_file(self.path)
            with decoding(self, "file"):
                return self.path.read_bytes()
        with decoding(self, "zip"), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
            n_bytes = min(archive.getinfo(self.member).compress_size, self.path.stat().st_size)
            content = stream.read(max_expanded(n_bytes) + 1)  # all at once takes the memory that the zip declares
        check_expansion(self, len(content), n_bytes)
        return content

    def read_text(self) -> str:
        """The text in UTF-8, see `decode_text` and `read_bytes` for errors."""
        return decode_text(self.read_bytes(), self)

    def path_or_buffer(self) -> Tuple[Union[Path, io.BytesIO], int]:
        """What a library opens: the path of a plain file on disk, else its content in memory; and its size in bytes.
        It raises the errors of `read_bytes`.
        """
        if self.member is None and not self.is_compressed:
            return self.path, self.path.stat().st_size
        content = self.read_bytes()
        return io.BytesIO(content), len(content)


def kind_of_file(head: bytes) -> str:
    """The format by the first 512 bytes of a file: "hdf5", "torch", "safetensors", "zip", "tar" or "pickle"; "" for
    another format.
    """
    if head.startswith(ZIP_MAGIC):
        n_name = int.from_bytes(head[26:28], "little")
        return "torch" if head[30 : 30 + n_name].endswith(b"/data.pkl") else "zip"
    if head.startswith(HDF5_MAGIC):
        return "hdf5"
    if head.startswith(b"\x80") and TORCH_MAGIC in head[:32]:
        return "torch"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= SAFETENSORS_HEADER:
        return "safetensors"
    if head.startswith(PICKLED):
        return "pickle"
    return "tar" if head[USTAR_OFFSET:].startswith(USTAR_MAGIC) else ""


class Listing:
    """A path that exists, and the files there, from which the formats choose. `kind` is "folder", or the format of a
    file by its first bytes, see `kind_of_file`, of archives also by its name; `file` is the file itself, None for a
    folder or archive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = File(path)
        self.kind = "folder" if path.is_dir() else file.kind or _archive_kind(file)
        self.file = None if self.kind in ("folder", "zip", "tar") else file

    @property
    def where(self) -> Path:
        """The folder or archive with the files."""
        return self.path if self.file is None else self.path.parent

    @cached_property
    def files(self) -> Dict[str, File]:
        """Files directly in the folder, all in the archive, or those beside the file, by name, see `list_files`.
        ValueError EL022 for an archive that is damaged or refused.
        """
        files = list_files(self.where, self.kind if self.file is None else "folder")
        if self.file is not None and self.file == files.get(self.file.name):
            files[self.file.name] = self.file  # whose first bytes are read
        return files

    @cached_property
    def deep_files(self) -> Dict[str, File]:
        """`files`, and the files of the folders directly in the folder."""
        files = dict(self.files)
        if self.where.is_dir():
            for folder in sorted(
                place for place in self.where.iterdir() if place.is_dir() and not is_hidden(place.name)
            ):
                files.update({f"{folder.name}/{name}": file for name, file in list_files(folder).items()})
        return files

    def find_model_folders(self, is_model_file: Callable[[str], bool]) -> Dict[str, Dict[str, File]]:
        """Each folder with a file whose name marks a biLM, and its files by name relative to it; the outermost first.
        All folders of an archive, otherwise only the folder of `files`, "".
        """
        model_files = [name for name in self.files if is_model_file(name.rpartition("/")[2])]
        roots = sorted({name[: name.rfind("/") + 1] for name in model_files}, key=lambda root: (root.count("/"), root))
        return {
            root: {name.removeprefix(root): file for name, file in self.files.items() if name.startswith(root)}
            for root in roots
        }


@dataclass(frozen=True)
class ModelFiles:
    """The files of a biLM.

    where (str): The folder or archive, or the file beside which they are.
    weights (File): The file of the arrays, or one of several.
    by_name (Mapping[str, File]): All files that the biLM may have, by name relative to its folder.
    options (Optional[File]): Its settings, where a format has them in a file of their own.
    vocab (Optional[File]): One word per line.
    token_embeddings (Optional[File]): Precomputed word vectors, under the name that our exporter uses.
    meta (Optional[File]): meta.json, of this package or another program.
    """

    where: str
    weights: File
    by_name: Mapping[str, File]
    options: Optional[File] = None
    vocab: Optional[File] = None
    token_embeddings: Optional[File] = None
    meta: Optional[File] = None

    @property
    def paths(self) -> List[Path]:
        """The files on disk, sorted; an archive is one file."""
        named = (self.weights, self.options, self.vocab, self.token_embeddings, self.meta)
        paths = {file.path for file in (*self.by_name.values(), *named) if file is not None}
        return sorted(path for path in paths if path.suffix != ".part")  # of a download that is not complete


def only_model(path: Path, models: Mapping[str, ModelFiles]) -> Optional[ModelFiles]:
    """The only biLM of those in a folder or archive, which are given by folder; None without any. ValueError for
    several.
    """
    if len(models) > 1:
        names = ", ".join(root.rstrip("/") or "the top" for root in models)
        raise ValueError(
            f"'{path}' has {len(models)} biLMs ({names}), but should have one. Unpack it, and pass one of its folders."
        )
    return next(iter(models.values()), None)


def list_files(path: Path, kind: str = "folder") -> Dict[str, File]:
    """The files of a "folder", "zip" or "tar" by name relative to it, with slashes and without `.gz`, sorted. Folders
    are left out, and hidden files, which macOS writes beside each file. A file hides the same file with `.gz`.

    RAISES (ValueError): EL022 for a damaged or hostile archive.
    """
    if kind == "folder":
        files = {file.name: File(file) for file in path.iterdir() if file.is_file()}
    else:
        files = _list_tar(path) if kind == "tar" else _list_zip(path)
    shown = sorted(name for name in files if not is_hidden(name))
    plain = {_plain_name(name): files[name] for name in shown}
    plain.update({name: files[name] for name in shown if name in plain})
    return dict(sorted(plain.items()))


def _list_zip(path: Path) -> Dict[str, File]:
    with decoding(path, "zip"), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith(("/", "\\"))]
    return {str(PurePosixPath(name.replace("\\", "/"))): File(path, name) for name in names}


def _list_tar(path: Path) -> Dict[str, File]:
    """Plain files, the first of each name; no links, devices and sparse files."""
    content = File(path).read_bytes()
    files: Dict[str, File] = {}
    with decoding(path, "tar archive"), tarfile.open(fileobj=io.BytesIO(content), mode="r:", tarinfo=_Header) as tar:
        for member in tar:
            start, end = member.offset_data, member.offset_data + (0 if member.issparse() else member.size)
            if not start <= end <= len(content):
                raise ValueError(f"{member.name} ends at byte {end:,}, but the archive has {len(content):,}")
            name = str(PurePosixPath(member.name))
            if member.isreg() and not member.issparse():
                files.setdefault(name, File(path, name, memoryview(content)[start:end]))
    return files


class _Header(tarfile.TarInfo):
    """`tarfile` ends quietly at a damaged header; here it is an error. A block of zeros is the end of the archive."""

    @classmethod
    def frombuf(cls, buf: Union[bytes, bytearray], encoding: str, errors: str) -> "_Header":
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            raise (ValueError(f"a header is damaged: {error}") if any(buf) else error) from error


def _archive_kind(file: File) -> str:
    """The kind of a file, "tar" or "zip", that is an archive by its name; "" for other files. A compressed file that is
    damaged counts as a tar.
    """
    if file.path.name.lower().endswith(TAR_SUFFIXES) or (file.is_compressed and not file.head):
        return "tar"
    return "zip" if file.path.suffix.lower() == ".zip" else ""


def _plain_name(name: str) -> str:
    return name if name.endswith(".tar.gz") else name.removesuffix(GZIP_SUFFIX)


def decompress(file: IO[bytes]) -> IO[bytes]:
    """The decompressed stream of a file at its beginning; the file itself if it is not gzip, bzip2 or xz by its first
    bytes.
    """
    head = file.read(max(map(len, COMPRESSION_MAGICS)))
    file.seek(0)
    if head.startswith(GZIP_MAGIC):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if head.startswith((BZIP2_MAGIC, XZ_MAGIC)):  # Python may be built without either
        is_xz = head.startswith(XZ_MAGIC)
        make = import_module("lzma").LZMADecompressor if is_xz else import_module("bz2").BZ2Decompressor
        return io.BufferedReader(CompressedStreams(file, make))
    return file


def max_expanded(n_bytes: int) -> int:
    """Maximum size after decompression of what has `n_bytes` in a file."""
    return 64 * MIB + MAX_EXPANSION * n_bytes


def check_expansion(path: object, n_expanded: int, n_bytes: int) -> None:
    """ValueError EL036 if `n_bytes` of a file expand to more than is allowed, before memory is taken for them."""
    if n_expanded > (limit := max_expanded(n_bytes)):
        raise ValueError(Errors.EL036.format(path=path, n_bytes=f"{n_bytes:,}", max_bytes=f"{limit:,}"))


def _require_file(path: Path) -> None:
    if not path.is_file():
        reason = "it is a folder" if path.is_dir() else "there is no such file"
        reason = (
            "it is a device or a pipe, which can be read only once" if path.exists() and not path.is_dir() else reason
        )
        raise ValueError(Errors.EL020.format(path=path, reason=reason, expected="a file with this name"))


def no_such_bilm(path: object, name: str, names: str = "one biLM without a name") -> ValueError:
    return ValueError(
        f"'{path}' has no biLM with the name '{name}' after the '#', found: {names}. Choose one of these, or leave "
        "out the '#' for the only one."
    )


def cannot_add(path: object, format: str, names: str) -> ValueError:
    return ValueError(
        f"The biLM in '{path}' is in the {format} format, which contains all its parameters and words, so {names} "
        f"cannot be added. Load it without {names}; a biLM with LSTMs can be saved in the bilm-tf format, and loaded "
        f"from there with {names}."
    )


def pickled(path: object, kind: str) -> ValueError:
    """The error that a file is a plain Python pickle, which is never opened, with how to save its content."""
    return ValueError(
        f"'{path}' cannot be read as {kind}: it is a Python pickle, which can run code when it is opened. If you trust "
        "it, open it with `pickle.load` and save its tensors with `torch.save(state_dict, path)` (`torch.as_tensor` "
        "makes them from NumPy arrays; a softmax and token embeddings belong into HDF5, `h5py.File`)."
    )


def unreadable(path: object, kind: str, reason: object, remedy: str = DAMAGED) -> ValueError:
    """EL022: a file cannot be read as a file of its kind."""
    return ValueError(Errors.EL022.format(path=path, kind=kind, reason=str(reason).rstrip("."), remedy=remedy))


def _denied(path: object, error: Exception) -> OSError:
    """EL037: the operating system, or a lock, prevents the reading of a file."""
    reason = getattr(error, "strerror", None) or error
    return OSError(Errors.EL037.format(path=path, reason=reason, remedy=LOCKED if _is_locked(error) else ACCESS))


def _is_locked(error: Exception) -> bool:
    """Whether HDF5 does not open a file that another program writes."""
    return isinstance(error, OSError) and ("unable to lock file" in str(error) or "already open for" in str(error))


def _is_of_system(error: Exception) -> bool:
    """Whether the operating system cannot read a file. EINVAL: the file has an invalid position and is damaged."""
    return _is_locked(error) or (isinstance(error, OSError) and error.errno not in (None, errno.EINVAL))


@contextmanager
def decoding(path: object, kind: str, remedy: str = DAMAGED) -> Iterator[None]:
    """Convert all exceptions of a decoder to one error of this package: EL022, or EL037 for errors of the operating
    system and for a file that another program writes. zipfile alone raises BadZipFile, EOFError, NotImplementedError,
    RuntimeError, zlib.error, LZMAError and more.
    """
    try:
        yield
    except Exception as error:  # all of them: see above
        reason = str(error) or type(error).__name__
        raise (_denied(path, error) if _is_of_system(error) else unreadable(path, kind, reason, remedy)) from error


def decode_text(content: bytes, path: object) -> str:
    """The text of UTF-8, or of UTF-16 or UTF-32 with its byte order mark, as editors of Windows write it; without the
    mark. ValueError EL022 with the line and the encoding if it is not valid.
    """
    encoding = json.detect_encoding(content[:4])
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        name = "UTF-8" if encoding.startswith("utf-8") else encoding.upper()
        byte, line = content[error.start : error.start + 1].hex(), content.count(b"\n", 0, error.start) + 1
        reason = f"line {line:,} has the byte 0x{byte}"
        raise unreadable(path, f"text in {name}", reason, "Save it as UTF-8") from error


def parse_json(content: Union[bytes, str], path: object) -> Any:
    """The value of JSON. ValueError EL022 if it is not JSON, with line and column."""
    text = decode_text(content, path) if isinstance(content, bytes) else content
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error if text.strip() else "it is empty"
        raise unreadable(path, "JSON", reason, "Correct it, or use the original file") from error


def read_json(file: File) -> Any:
    """The value of a JSON file. ValueError EL020, EL022 or EL036."""
    return parse_json(file.read_bytes(), file)


def read_object(file: File, kind: str, convert: Callable[[bytes], bytes] = bytes) -> Dict[str, Any]:
    """The object of a JSON file, which contains `kind`; `convert` makes JSON of its content. ValueError as `read_json`,
    EL022 for another value.
    """
    record = parse_json(convert(file.read_bytes()), file)
    if not isinstance(record, dict):
        raise unreadable(file, kind, f"it contains a {type(record).__name__} instead of an object {{...}}")
    return record


def write_object(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON file that `read_object` reads; srsly would round numbers."""
    path.write_bytes(json.dumps(record, indent=2).encode("ascii"))


def read_hdf5(file: File) -> Dict[str, Array]:
    """All datasets of a file by their path in it; links are not followed.

    RAISES (ValueError): EL020 without a file and for a file of vectors; EL022 if it is truncated or not HDF5, EL036 for
        shapes far larger than the file; for datasets with external or virtual storage, or of other types than numbers.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    if file.kind == "pickle":
        raise pickled(file, "HDF5")
    path_or_buffer, n_bytes = file.path_or_buffer()
    with decoding(file, "HDF5"), h5py.File(path_or_buffer, "r") as opened:
        datasets, problems = _list_datasets(opened)
        n_expanded = sum(dataset.nbytes for dataset in datasets.values())
        has_vectors = any(name in opened for name in FIRST_VECTORS)
        is_read = not problems and not has_vectors and n_expanded <= max_expanded(n_bytes)
        arrays = {name: np.asarray(dataset[()]) for name, dataset in datasets.items()} if is_read else {}
    if has_vectors:
        raise ValueError(Errors.EL020.format(path=file, reason=VECTORS, expected=WEIGHTS_WANTED))
    check_expansion(file, n_expanded, n_bytes)
    if problems:
        raise ValueError(
            f"The HDF5 file '{file}' is refused, it has {len(problems)} problem(s):{listed(problems)}\nCopy the arrays "
            "into a new file (h5py: `create_dataset(name, data=...)`), or download the original file."
        )
    return arrays


def write_hdf5(path: Path, arrays: Mapping[str, Array], dtype: str) -> None:
    """Write float32 arrays by their path to a file that does not exist yet, as "float32" or "float16". OSError if the
    disk is full.
    """
    check_space(path, sum(array.size for array in arrays.values()) * np.dtype(dtype).itemsize)
    with h5py.File(path, "w") as file:
        for name in sorted(arrays):
            file.create_dataset(name, data=np.ascontiguousarray(arrays[name], dtype=dtype))


def _list_datasets(file: h5py.File) -> Tuple[Dict[str, h5py.Dataset], List[str]]:
    """The datasets by path, without their values, and all problems. Each object is visited once, links are not."""
    datasets: Dict[str, h5py.Dataset] = {}
    problems: List[str] = []

    def visit(name: Union[str, bytes], node: Any) -> None:  # bytes for a name that is not UTF-8
        if not isinstance(node, h5py.Dataset):
            return
        path = name if isinstance(name, str) else name.decode("utf8", "backslashreplace")
        problems_of_dataset = list(_problems_of(path, node))
        problems.extend(problems_of_dataset)
        if not problems_of_dataset:
            datasets[path] = node

    file.visititems(visit)
    return datasets, problems


def _problems_of(path: str, dataset: h5py.Dataset) -> Iterator[str]:
    """Reasons why a dataset cannot be read."""
    layout = dataset.id.get_create_plist()
    if layout.get_layout() == h5py.h5d.VIRTUAL:
        yield f"{path} is a virtual dataset, whose values are in other datasets"
    elif layout.get_external_count():
        yield f"{path} has its values in another file"
    elif dataset.dtype.kind not in NUMBERS:
        yield f"{path} is {dataset.dtype}, should be floating point"
    elif dataset.shape is None:
        yield f"{path} is empty, it has no shape"
