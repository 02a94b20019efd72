"""Every error and warning of the package: what is wrong, the value found, the value wanted, what to do."""


class Errors:
    """Templates of error messages, for `str.format`."""

    # bilm, text, encoding: EL001 to EL019
    EL001 = "Unknown setting in {block}: {unknown}. Known settings: {known}. Correct the name or remove it."
    EL002 = "The {block} does not describe a biLM: {problems}. Correct these settings."

    # weights: EL020 to EL059

    # ml, pipeline: EL060 to EL099

    # pretraining: EL100 to EL129

    # cli, project: EL130 to EL169


class Warnings:
    """Templates of warnings, for `str.format`."""

    # bilm, text, encoding: WL001 to WL019

    # weights: WL020 to WL039

    # ml, pipeline: WL060 to WL079

    # the rest: WL100 and up
