"""Errors of weights: reading, writing, files that do not fit each other.

EL020 to EL037, EL372.
"""

from .catalogue import Catalogue


class WeightsErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL020 = "No biLM at '{path}': {reason}. Looked for: {wanted}. Check the path."
    EL021 = (
        "'{path}' is ambiguous: it has {n} files with {kind} ({names}), but should have one. Specify the files: "
        "`load_bilm(options=..., weights=...)`, or on the command line the path of the weights and `--options`; for a "
        "command without `--options`, copy them into a folder of their own."
    )
    EL022 = "'{path}' cannot be read as {kind}: {reason}. {remedy}."
    EL023 = (
        "'{path}' does not contain valid settings of a biLM: {problems}. Correct them, or use the file that came with "
        "the weights."
    )
    EL025 = (
        "There is already a {kind} at '{path}'. Choose another path, or replace the files of a folder with force=True "
        "(`--force` on the command line)."
    )
    EL026 = (
        "The weights in '{path}' do not fit '{options}', {n_problems} problem(s):{problems}\nIf sizes differ, use the "
        "settings that came with the weights; otherwise the file is damaged."
    )
    EL036 = (
        "'{path}' has {n_bytes} bytes, but should have at most {max_bytes}: no biLM needs more. Check that it is the "
        "right file and identical to the original."
    )
    EL037 = "The operating system cannot read '{path}': {reason}. {remedy}."
    EL372 = (
        "The folder '{path}' has files of a biLM that was not written here: {names}. Nothing is deleted. Choose "
        "another folder, or move these files away."
    )
