# The two commands a newcomer needs are `make demo` and `make test`; each sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
SAMPLE := The old man opened the ___ and walked into the ___.

.PHONY: demo serve test lint types bench clean

# The stamps make a second run start at once: pip runs again only when the project's own pins change.
.venv/installed: pyproject.toml constraints-cpu.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e ".[dev]"
	touch $@

.venv/installed-bench: .venv/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e ".[bench]"
	touch $@

demo: .venv/installed
	$(BIN)/anyorder fill "$(SAMPLE)" --alone
	$(BIN)/anyorder generate "The ___{10} sea ." --order random --trace --seed 1

.venv/installed-web: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e ".[web]"
	touch $@

serve: .venv/installed-web
	$(BIN)/anyorder serve

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

# One process per core with one thread each: threads that wait for each other cost more than they gain.
test: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(nproc) --dist loadscope

bench: .venv/installed-bench
	for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
