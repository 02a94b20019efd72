"""Errors of exports: ONNX graphs, spaCy packages, HDF5 files of vectors. EL350 to EL359."""

from .catalogue import Catalogue


class ExportErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL350 = (
        "Exporting to ONNX needs the package 'onnx', which is not installed. Install it: `pip install "
        '"spacy-elmo[onnx]"`, or `pip install onnx`.'
    )
    EL351 = (
        "A biLM in {precision} cannot be exported to ONNX, which computes in float32: the vectors would differ. Load "
        'it with precision="float32", or call `bilm.set_precision("float32")` first.'
    )
    EL352 = 'This biLM cannot be exported to ONNX: {reason}. Save it in the native format instead (format "native").'
    EL353 = (
        "This biLM cannot be exported to ONNX: its arrays have {n_bytes} bytes, but one ONNX file holds at most "
        '{max_bytes}. Save it in the native format instead (format "native").'
    )
    EL354 = (
        "The output '{path}' does not fit the format {format}: {reason}. Choose a path that ends in .onnx for ONNX, "
        "which is one file, and a folder for other formats."
    )
    EL355 = (
        "'{value}' is not a valid {what} of a package: it should be {wanted}. Choose another {what}, for example "
        "{example}."
    )
    EL356 = (
        "The package '{name}' could not be built: {reason}. Build it from its folder later (`python -m build`), or "
        "write only the folder with --build none."
    )
    EL357 = (
        "Building a package needs the Python package 'build', which is not installed. Install it (`pip install build "
        "setuptools`), or write only the folder with --build none."
    )
    EL358 = "{options} cannot be used here: {reason}. {remedy}."
