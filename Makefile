# The only way to run things. `make demo` and `make test` need a Debian-like machine with Python 3.11+
# and root; everything else that they use they install themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CLUSTER_PROGRAM := localcluster/cluster
# Pins with hashes, and nothing of where they were downloaded from.
RESOLVE := uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= oip_json oip_binary oip_proto tfs grps_http grps_metadata grps_proto grpc_native

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down test check format lint types unit fixtures crds lock \
        conformance fuzz integration autoscalers e2e bench bench-gate clean

help: ## Show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

# An operator/__init__.py would shadow the standard library's operator module and break Python
# started in this folder, so the shell looks before any Python starts.
guard:
	@test ! -e operator/__init__.py || { echo "operator/__init__.py must not exist: it shadows the standard library"; exit 1; }

$(VENV)/.installed: requirements/dev.txt operator/pyproject.toml runtime/pyproject.toml cli/pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'installing python3-venv'; apt-get update -qq && apt-get install -qq -y python3-venv >/dev/null; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e operator -e runtime -e cli
	@touch $@

setup: guard $(VENV)/.installed ## Make .venv with the packages and the development tools

demo: guard ## Install what is missing, find or start a cluster, serve a model, ask it
	$(PYTHON) demo/demo.py up

demo-down: guard ## Remove everything that make demo made
	$(PYTHON) demo/demo.py down

test: setup format lint types fixtures ## Everything that a user should trust
	$(CLUSTER_PROGRAM) install
	$(BIN)/pytest tests

check: setup format lint types unit ## Format, lint, types, import rules, unit and contract tests

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .
	$(BIN)/lint-imports --config .importlinter
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md docs crds charts examples operator runtime cli localcluster demo tests benchmarks

types: setup
	$(BIN)/pyright

unit: setup
	$(BIN)/pytest tests/unit tests/contract tests/localcluster

fixtures: setup ## Write the models that the protocol tests need to build/
	$(BIN)/python tests/fixtures/make.py

conformance: setup fixtures ## Protocol vectors and third-party clients against the runtime
	$(BIN)/pytest tests/conformance

fuzz: setup ## Throw bytes at every frontend, FUZZ_SECONDS each
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@for target in $(FUZZ_TARGETS); do \
	  echo "$$target"; $(BIN)/python tests/fuzz/run.py $$target -max_total_time=$(FUZZ_SECONDS) -verbosity=0 || exit 1; \
	done

integration: setup ## The operator against a real kube-apiserver
	$(CLUSTER_PROGRAM) install
	$(BIN)/pytest tests/integration

autoscalers: setup ## Scale models by the real KEDA and by an adapter for custom metrics; builds both first, 18 minutes of a core
	$(CLUSTER_PROGRAM) install
	AUTOSCALERS=1 $(BIN)/pytest tests/integration/test_keda.py tests/integration/test_pod_metrics.py

e2e: setup ## Chart, operator, runtime and real pods on the local cluster
	$(BIN)/pytest tests/e2e

crds: setup ## Copy crds/ into the chart and the cli, make the dashboard and the cli's page
	$(PYTHON) charts/copy_crds.py
	$(PYTHON) charts/make_dashboard.py
	$(BIN)/python cli/make_data.py

bench: setup ## Run the benchmarks and print their tables
	$(BIN)/python benchmarks/run.py

bench-gate: setup ## Measure runtime and operator briefly, fail with the names of what got slower
	$(CLUSTER_PROGRAM) install --fake-nodes
	$(BIN)/python benchmarks/gate.py

lock: setup ## Resolve the hashed requirements again (needs uv)
	$(RESOLVE) operator/pyproject.toml -o operator/requirements.txt
	$(RESOLVE) runtime/pyproject.toml -o runtime/requirements.txt
	$(RESOLVE) cli/pyproject.toml -o cli/requirements.txt
	for extra in openvino sklearn; do $(RESOLVE) --extra $$extra -c runtime/requirements.txt runtime/pyproject.toml -o runtime/requirements-$$extra.txt || exit; done
	$(RESOLVE) --group dev operator/pyproject.toml runtime/pyproject.toml cli/pyproject.toml -o requirements/dev.txt
	echo hatchling | $(RESOLVE) - -o requirements/build.txt
	printf 'tritonclient[http,grpc]\n' | $(RESOLVE) - -o requirements/clients.txt
	printf 'kserve\n' | $(RESOLVE) - -o requirements/clients-kserve.txt
	echo atheris | $(RESOLVE) - -o requirements/fuzz.txt
	onnxruntime=$$(sed -n 's/^\(onnxruntime==[^ ]*\).*/\1/p' runtime/requirements.txt); \
	for peer in triton:nvidia-pytriton==0.7.0 mlserver:mlserver==1.7.1 kserve:kserve==0.21.0; do \
	  printf '%s\n' "$${peer#*:}" "$$onnxruntime" | $(RESOLVE) - -o benchmarks/peers/$${peer%%:*}/requirements.txt || exit; \
	done

clean: ## Remove build output and the virtual environment
	rm -rf build $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
