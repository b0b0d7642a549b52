# make demo: set up, then do the main job.   make test: set up, then run the tests; make test-all: also the slow ones.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TRAIN := .venv/.train
# Those of speed, which need no folder of trained models.
BENCHMARKS := data infomec metrics performance selection studies tasks training

.PHONY: demo test test-all lint format docs bench clean

demo: $(TRAIN)
	$(BIN)/karenina demo --out demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# The tests above, and then those of more than two seconds.
test-all: test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo build/docs/index.html

bench: $(READY)
	for name in $(BENCHMARKS); do echo "== $$name"; OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done

# Installed again only when a requirement changes. The demo needs a third of what the tests need.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(TRAIN) $(READY)

$(TRAIN): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train]'
	touch $(TRAIN)

clean:
	rm -rf .venv demo build
