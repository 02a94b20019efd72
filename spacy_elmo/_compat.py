"""What differs between installations: optional packages, whose flags all other modules test, and Python versions."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

has_cupy: bool = find_spec("cupy") is not None
has_datasets: bool = find_spec("datasets") is not None
has_faiss: bool = find_spec("faiss") is not None
has_matplotlib: bool = find_spec("matplotlib") is not None
has_onnx: bool = find_spec("onnx") is not None
has_onnxruntime: bool = find_spec("onnxruntime") is not None
has_sklearn: bool = find_spec("sklearn") is not None
has_starlette: bool = find_spec("starlette") is not None
has_tensorboard: bool = find_spec("tensorboard") is not None
has_uvicorn: bool = find_spec("uvicorn") is not None
has_zstandard: bool = find_spec("zstandard") is not None

CHUNK_BYTES = 2**20


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Hash a file of any size, like `hashlib.file_digest` of Python 3.11.

    path (Path): The file.
    algorithm (str): A name that `hashlib` knows.
    RETURNS (str): The digest in hexadecimal digits.
    """
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
