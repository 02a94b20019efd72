"""Which optional packages are installed. All other modules test these flags."""

from importlib.util import find_spec

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
