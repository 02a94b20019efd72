# The checks of .ci/run one by one, in the active environment: make lint types tests. CONTRIBUTING.md has the rest.
.PHONY: lint types tests slow docs

lint:
	ruff check .
	ruff format --check .

types:
	mypy

tests:
	python -m pytest -n 2 --dist loadfile

slow:
	python -m pytest --slow -m slow -n 2 --dist loadfile

docs:
	python docs/site/build.py
