"""What the explorer shows: a biLM, the learned mixes of a pipeline, and an index."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from ..analysis.neighbors import NeighborIndex
from ..corpora.texts import choose_lang
from ..errors import Errors
from ..inference.bilm import BiLM
from ..pipeline.component import find_model
from ..pipeline.layer_weights import TaskMix, find_task_mixes, load_trained
from ..pipeline.model import PACKAGED_BILM, get_bilm
from ..weights import load_bilm
from .reading import TextSplitter
from .views import Explorer


def open_explorer(
    *,
    bilm: Optional[str] = None,
    index: Optional[Path] = None,
    pipeline: Optional[str] = None,
    lang: Optional[str] = None,
) -> Explorer:
    """Load what the explorer shows.

    bilm (Optional[str]): Packaged name or path. By default the biLM of the pipeline, or without a pipeline of the
        index, or else the packaged one. If the pipeline has the biLM of the index or the packaged one, it is read from
        there, since a pipeline has no softmax.
    index (Optional[Path]): From `elmo index`.
    pipeline (Optional[str]): A trained pipeline: a folder, or the name of an installed package.
    lang (Optional[str]): Language of the tokenizer and the sentence splitter; by default the language of the index, of
        the biLM, or "en".
    RETURNS (Explorer): The explorer.
    RAISES (ValueError): EL230 if no component of the pipeline mixes layers, EL394 for an index of another biLM; if the
        pipeline mixes layers of another biLM, for an unknown language; errors of reading the files.
    """
    with ExitStack() as opened_files:
        stored = None if index is None else opened_files.enter_context(NeighborIndex.open(index))
        name = bilm or (PACKAGED_BILM if stored is None else str(stored.settings["bilm"]))
        load = partial(load_bilm, name) if stored is None else partial(stored.load_bilm, bilm)
        mixes: List[TaskMix] = []
        if pipeline is None:
            opened = load()
        else:
            opened, name, mixes = _open_pipeline(pipeline, name, load, is_default=bilm is None)
        reader = TextSplitter(choose_lang(lang, stored and stored.lang, opened.meta.get("lang")))
        if stored is not None:
            stored.check_bilm(opened)
        opened_files.pop_all()  # the explorer closes the index
    return Explorer(opened, name, reader=reader, index=stored, mixes=mixes)


def _open_pipeline(
    pipeline: str, name: str, load: Callable[[], BiLM], *, is_default: bool
) -> Tuple[BiLM, str, List[TaskMix]]:
    """RETURNS (Tuple[BiLM, str, List[TaskMix]]): The named biLM, or the biLM of the pipeline if the name is a default
    for another one; its name; and the mixes of the pipeline that weigh the layers.
    """
    nlp = load_trained(pipeline)
    task_mixes = find_task_mixes(nlp)
    if not task_mixes:
        raise ValueError(Errors.EL230.format(pipeline=pipeline, pipes=", ".join(nlp.component_names) or "none"))
    mixes = [mix for mix in task_mixes if not mix.is_concatenated]
    model = find_model(nlp)
    bilm_of_pipeline = None if model is None else get_bilm(model)
    try:
        loaded = load()
    except ValueError:
        if bilm_of_pipeline is None or not is_default:
            raise
        return bilm_of_pipeline, f"the biLM of {pipeline}", mixes
    digest = None if bilm_of_pipeline is None else bilm_of_pipeline.digest
    if is_default and bilm_of_pipeline is not None and digest != loaded.digest:
        return bilm_of_pipeline, f"the biLM of {pipeline}", mixes
    if digest != loaded.digest:
        raise ValueError(
            f"The layer weights of '{pipeline}' were learned on the layers of another biLM than '{name}': its digest "
            f"is {digest}, but '{name}' has {loaded.digest}. Leave out `bilm`, give the biLM that the pipeline was "
            "trained with, or leave out `pipeline`."
        )
    return loaded, name, mixes
