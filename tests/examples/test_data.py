"""A wrong --data ends a recipe with a message that names the folder."""

import pytest


@pytest.mark.parametrize("name", ["coref", "nli", "qa", "sentiment", "srl"])
def test_missing_data_is_named(run_recipe, tmp_path, name):
    with pytest.raises(SystemExit) as error:
        run_recipe(name, "--data", tmp_path, "--without-elmo", "--seeds", 1)
    assert str(tmp_path) in str(error.value) and "--data" in str(error.value)
