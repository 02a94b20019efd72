"""Errors of the component, the listeners and vectors on Docs. EL060 to EL099."""

from .catalogue import Catalogue


class PipelineErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL060 = "The {block} has invalid settings: {problems}. Correct these settings."
    EL062 = (
        "There are no ELMo vectors for '{text}' (extension prefix '{name}'). Process the Doc with a pipeline that has "
        'an ELMo component (`nlp.add_pipe("elmo")`). To keep the vectors of a Doc that is copied, copy its user '
        "data: `Doc.to_bytes()`, `DocBin(store_user_data=True)`, `span.as_doc(copy_user_data=True)`."
    )
    EL063 = (
        "The tokens of the Doc have changed since its ELMo vectors were computed (extension prefix '{name}'): "
        "'{text}'. Compute the vectors again with the ELMo component (`nlp.get_pipe(NAME)(doc)`), or retokenize before "
        "it. With average_merged = true in its config, merged tokens get the mean of their vectors."
    )
    EL068 = (
        "The ELMo listener{owner} expects {wanted}, but found {found}. It was trained with another biLM: load that "
        "biLM, or train the listening component again."
    )
    EL071 = (
        "{listener} has no ELMo component to listen to. Add a component of the factory 'elmo' to the pipeline, before "
        'the component with the listener, and under the name in `upstream` ("*" for the nearest one). If there is '
        "one, it was disabled when the listener was added, or is in the pipeline of a `source`."
    )
    EL074 = (
        "The ELMo vectors of '{text}' (extension prefix '{name}') cannot be matched to its tokens: `as_doc` or "
        "`Doc.from_docs` was called more than once in a row, and they do not record which tokens they copied. Read "
        "`._.{name}` of each Doc once before the next call (`doc._.{name}`, then `Doc.from_docs([doc, ...])`), or "
        "process the Doc again."
    )
    EL083 = (
        "Components in frozen_components were trained with another biLM ({trained}) than '{name}' has ({found}), and "
        "cannot adapt to it: {components}. Load that biLM "
        "([initialize.components.{name}.loader], `weights` of the component, or a `source` that has it), or remove "
        "them from there to train them further."
    )
    EL098 = (
        "The component '{name}' is not initialized: it has no weights (as spaCy's E109). Train it (`nlp.initialize`, "
        "then `nlp.update`; or `spacy train`), load a trained pipeline, or disable the component."
    )
