# The two commands a newcomer needs are `make demo` and `make test`; each sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
SAMPLE := He sat down at the ___ and drank a cup of ___.

.PHONY: demo serve test campaign lint types bench browser docs outputs wheel clean

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

# The page's types are checked by TypeScript where npm is at hand; elsewhere a line says that they were not.
TSC := .venv/node/node_modules/.bin/tsc
lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@test -x $(TSC) || ! command -v npm > /dev/null || npm install --silent --no-fund --no-audit --prefix .venv/node typescript@5.9.3 || true
	@if test -x $(TSC); then $(TSC) -p tsconfig.json; else echo "lint: the page's types are not checked, for npm or its registry is out of reach"; fi

types: .venv/installed-dev
	$(BIN)/mypy

# One thread each: threads that wait for each other cost more than they gain. One process more than there are cores,
# because tests of commands wait for other processes (by a fifth of their time, measured).
test: .venv/installed-dev browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(($$(nproc) + 1)) --dist loadscope --no-loadscope-reorder

# Bad inputs, tampered checkpoints and faults for as long as you like; a slice of it is in `make test` (docs/trust.md).
MINUTES ?= 10
campaign: .venv/installed-dev
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONPATH=tests \
	  $(BIN)/python -m campaign --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# A real browser for the tests of the page. Where it cannot be installed they are skipped and say why.
browser:
	@.ci/browser

bench: .venv/installed-bench
	for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# The site, into build/site: strict, so a link that leads nowhere is an error. `make test` builds it too.
docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The outputs and figures that the pages show, made anew; MODELS is a folder of models that are not in the package.
outputs: .venv/installed-dev
	$(BIN)/python docs/tools/figures.py
	$(BIN)/python docs/tools/regenerate.py $(if $(MODELS),--models $(MODELS))

# What a user gets: a wheel, installed alone into an empty environment, at work without the repository.
wheel: .venv/installed-dev
	rm -rf build/lib build/wheel build/empty
	$(BIN)/python -m build --wheel --outdir build/wheel .
	$(PYTHON) -m venv build/empty
	build/empty/bin/pip install --quiet --disable-pip-version-check -c constraints-cpu.txt build/wheel/*.whl
	cd build/empty && bin/python -I ../../.ci/smoke.py ../wheel/*.whl
	build/empty/bin/pip install --quiet --dry-run --disable-pip-version-check -c constraints-cpu.txt \
	  "anyorder[all] @ file://$$(ls $(CURDIR)/build/wheel/*.whl)"

clean:
	rm -rf .venv artefacts build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
