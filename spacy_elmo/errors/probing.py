"""Errors of the command `elmo probe`, and of pictures of several pipelines. EL420 to EL429."""

from .catalogue import Catalogue


class ProbingErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL420 = (
        "'{path}' cannot be read for --attr {attr}: its suffix should be {suffixes}. Give a file in that format, or "
        "another attribute."
    )
    EL422 = (
        "'{path}' cannot be split into training and test data: {problem}. Give training data with --train, or a file "
        "with more documents."
    )
    EL423 = (
        "None of the {n_test} labels of the test data '{test}' ({examples}) is a label of the training data '{train}' "
        "({known}), so that no probe can be right. Give training data with the same labels."
    )
    EL424 = (
        "Training and test data are the same file, '{path}', so that scores would mean nothing. Give another file with "
        "--train, or leave --train out: the documents are then split."
    )
    EL425 = "Unknown layer '{layer}' in --layers. The layers of this biLM are: {known}."
    EL426 = (
        "The pipeline '{pipeline}' has no component `elmo`; its components are: {pipes}. Give a pipeline with "
        "`elmo`, or a biLM."
    )
    EL427 = (
        "--control-seeds does not fit --attr sense: senses are found by nearest neighbour, which has no control task. "
        "Leave --control-seeds out."
    )
    EL428 = (
        "'{path}' has no token with the attribute '{attr}' ({n_docs} documents). Its tokens have: {found}. Give "
        "annotated text, or another attribute."
    )
    EL429 = "--log draws the course of one pipeline, but {n} are given. Name one pipeline, or leave --log out."
