# Runs everything. `make test` needs Debian with Python 3.11 or later and root, and installs what else
# it uses. `make demo` needs the same, or Docker, kind, kubectl and helm.

# Debian's `su` keeps the user's PATH, which lacks the folders of nft and of what dpkg calls.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CLUSTER_PROGRAM := localcluster/cluster
# Pins with hashes, and nothing of where they were downloaded from.
RESOLVE := uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate
FUZZ_SECONDS ?= 60
# More than 0: so many inputs, divided among the targets, however long they take.
FUZZ_INPUTS ?= 0
# Histories of the simulation.
SEEDS ?= 100000
CHAOS_SECONDS ?= 600
# The schedule of faults; empty: a random one, which the run prints.
CHAOS_SEED ?=
SOAK_SECONDS ?= 3600
# llama.cpp without optimization and without what its Python server does not need, to build it fast.
SMALL_LLAMA_CPP := -DCMAKE_C_FLAGS_RELEASE=-O0 -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DGGML_NATIVE=OFF \
	-DGGML_LLAMAFILE=OFF -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF -DLLAMA_CURL=OFF
BENCHMARKS ?= runtime grpc peers operator-scale operator-stress
FUZZ_TARGETS ?= oip_json oip_binary oip_proto tfs grps_http grps_metadata grps_proto grpc_native http compressed

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down images chart install.yaml wheels changelog test check format lint types unit fixtures generate lock audit
.PHONY: conformance openai runtimes formats attack hostile fuzz mutate integration idle faults transitions simulate chaos soak
.PHONY: soak-grpc gpu autoscalers docs browser screenshots
.PHONY: e2e bench clean

help: ## Show the targets
	@grep -hE '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

# An operator/__init__.py would shadow the standard library's operator module and break Python
# started in this folder, so the shell looks before any Python starts.
guard:
	@test ! -e operator/__init__.py || { echo "operator/__init__.py must not exist: it shadows the standard library"; exit 1; }

$(VENV)/.installed: requirements/dev.txt operator/pyproject.toml runtime/pyproject.toml cli/pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'installing python3-venv'; apt-get update -qq && apt-get install -qq -y python3-venv >/dev/null; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e operator -e runtime -e cli
	@touch $@

setup: guard $(VENV)/.installed ## Create .venv with the packages and the development tools

demo: guard ## Start a cluster, install the chart, serve a model and send it requests
	$(PYTHON) demo/demo.py up

images: guard ## Build the images for REGISTRY=HOST/TEAM, with SBOMs; PUSH=1 pushes; TAG=, EXTRAS= and PLATFORMS= are optional
	$(PYTHON) demo/build_images.py --registry "$(REGISTRY)" --tag "$(TAG)" --extras "$(EXTRAS)" --push "$(PUSH)" --platforms "$(PLATFORMS)"

chart: guard ## Package the charts; with REGISTRY=HOST/TEAM as in make images and PUSH=1, push them
	$(PYTHON) demo/build_release.py chart --registry "$(REGISTRY)" --push "$(PUSH)"

install.yaml: guard ## Write build/release/install.yaml: the rendered chart with the images that make images pushed
	$(PYTHON) demo/build_release.py install.yaml

wheels: setup ## Build the wheels of moorage-operator, moorage-runtime and moorage-cli in build/release
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/release ./operator ./runtime ./cli

changelog: guard ## Print the release notes of VERSION, its section of CHANGELOG.md
	@$(PYTHON) demo/release_notes.py --version "$(VERSION)"

demo-down: guard ## Remove everything that make demo created
	$(PYTHON) demo/demo.py down

test: setup browser format lint types fixtures docs ## All checks and tests, including those on a real cluster
	$(CLUSTER_PROGRAM) install
	$(BIN)/python tests/lanes.py

browser: guard ## Install Chromium and its driver, which the tests of the pages need; Debian, as root
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; }

screenshots: setup browser ## Write the pictures of moorage ui in docs/images again
	$(CLUSTER_PROGRAM) install
	SCREENSHOTS=docs/images $(BIN)/pytest tests/integration/test_ui_views.py -k pictures

check: setup format lint types unit ## Format, lint, types, import rules, unit and contract tests

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .
	$(BIN)/lint-imports --config .importlinter
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md VERSIONING.md CODE_OF_CONDUCT.md .github docs crds charts examples operator runtime cli localcluster demo tests benchmarks generate

types: setup
	$(BIN)/pyright

unit: setup
	$(BIN)/pytest tests/unit tests/contract tests/localcluster tests/simulation/test_simulation.py

fixtures: setup ## Write the models that the protocol tests need to build/
	$(BIN)/python tests/fixtures/make.py

conformance: setup fixtures ## Protocol vectors and third-party clients against the runtime
	$(BIN)/pytest tests/conformance

openai: setup ## Build a real OpenAI-compatible server (five CPU-minutes), query and test it
	OPENAI_SERVER=1 CMAKE_ARGS="$(SMALL_LLAMA_CPP)" $(BIN)/pytest tests/conformance/test_operator_openai.py

runtimes: setup ## Start the servers of charts/moorage-runtimes with models: Triton, MLServer, llama.cpp; 2 GB, ten CPU-minutes
	$(CLUSTER_PROGRAM) install
	RUNTIME_SERVERS=1 $(BIN)/pytest tests/integration/test_runtime_set.py tests/conformance/test_runtime_set.py

formats: setup ## Serve models of the extras, and OpenAI-compatible servers, on real pods; builds the images (15 CPU-minutes)
	FORMATS=1 RUNTIME_SERVERS=1 EXTRAS="tables text openvino" CMAKE_ARGS="$(SMALL_LLAMA_CPP)" $(BIN)/pytest tests/e2e/test_formats.py

attack: setup ## Hostile clients and overload against the running server, for a minute each
	ATTACK_SECONDS=60 $(BIN)/pytest tests/attack --timeout=600

hostile: setup ## Run hostile model servers against the operator's poller and a real operator; print the effects
	$(CLUSTER_PROGRAM) install
	$(BIN)/pytest -s tests/conformance/test_hostile.py tests/integration/test_hostile_servers.py

fuzz: setup ## Fuzz every frontend, FUZZ_SECONDS each or FUZZ_INPUTS in total
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	$(BIN)/python tests/fuzz/all.py --seconds=$(FUZZ_SECONDS) --inputs=$(FUZZ_INPUTS) $(FUZZ_TARGETS)

# In a folder of its own, so that .venv stays what requirements/dev.txt says.
build/mutation/.installed: requirements/mutation.txt $(VENV)/.installed
	rm -rf build/mutation/packages
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --target build/mutation/packages -r $<
	@touch $@

mutate: setup build/mutation/.installed ## Change MODULES (all by default) in one place at a time; list the changes that no test detects
	PYTHONPATH=$(CURDIR)/build/mutation/packages nice -n 15 $(BIN)/python tests/mutation/run.py $(if $(RECORD),--record) $(MODULES)

integration: setup browser ## The operator against a real kube-apiserver
	$(CLUSTER_PROGRAM) install
	$(BIN)/pytest tests/integration

faults: setup ## Every fault at every write and watch event of every scenario; about half an hour
	$(CLUSTER_PROGRAM) install
	$(BIN)/python tests/faults/run.py

transitions: setup ## 10,000 random transitions of models, each result compared with a fresh model; about an hour
	$(CLUSTER_PROGRAM) install
	$(BIN)/python tests/transitions/run.py --transitions 10000

simulate: setup ## Play 100,000 seeds of simulated histories with faults; hours on two cores
	$(BIN)/python tests/simulation/run.py --seeds $(SEEDS)

chaos: setup ## Send traffic to six models while everything below them fails at random for CHAOS_SECONDS; needs root
	$(BIN)/python tests/chaos/run.py --seconds $(CHAOS_SECONDS) --seed "$(CHAOS_SEED)"

soak: setup ## Operator and runtime under steady load for SOAK_SECONDS; fail if memory, descriptors or threads grow
	$(CLUSTER_PROGRAM) install
	$(BIN)/python tests/soak/run.py --seconds $(SOAK_SECONDS)

soak-grpc: setup ## The runtime's gRPC port under mixed calls for SOAK_SECONDS; fail on wrong answers or growth
	$(BIN)/python tests/soak/grpc_load.py --seconds $(SOAK_SECONDS)

idle: setup ## Leave the operator alone for 15 minutes; fail if it restarts or reports itself unhealthy
	$(CLUSTER_PROGRAM) install
	IDLE_SECONDS=900 $(BIN)/pytest -s tests/integration/test_idle.py

gpu: guard ## Serve models on this machine's NVIDIA GPU; installs CUDA's libraries, 2.5 GB
	$(PYTHON) -m venv --clear build/gpu
	build/gpu/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	build/gpu/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r runtime/requirements-gpu.txt
	build/gpu/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e operator -e runtime -e cli
	GPU=1 MOORAGE_EXECUTION_PROVIDER=cuda build/gpu/bin/pytest tests/gpu tests/conformance/test_batching_zoo.py tests/conformance/test_encoders.py

autoscalers: setup ## Scale models with the real KEDA and with a custom-metrics adapter; builds both first (18 CPU-minutes)
	$(CLUSTER_PROGRAM) install
	AUTOSCALERS=1 $(BIN)/pytest tests/integration/test_keda.py tests/integration/test_pod_metrics.py

e2e: setup ## Chart, operator, runtime and real pods on the local cluster
	$(BIN)/pytest tests/e2e

generate: setup ## Update every generated file: CRD copies, chart values page, dashboard, CLI data, reference pages, message classes
	$(BIN)/python generate/run.py

bench: setup ## Run BENCHMARKS (all by default, over an hour) and print their tables
	$(if $(findstring operator,$(BENCHMARKS)),$(CLUSTER_PROGRAM) install --fake-nodes)
	$(BIN)/python benchmarks/run.py $(BENCHMARKS)

audit: guard ## Look for known vulnerabilities in all locked requirements; needs PyPI's advisory service
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	$(PYTHON) requirements/audit.py

build/docs/.installed: requirements/docs.txt
	$(PYTHON) -m venv build/docs/venv
	build/docs/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

docs: build/docs/.installed ## Build the documentation site; fail if a link has no target. Diagrams need npm
	build/docs/venv/bin/python docs/site/build.py build/docs

lock: setup ## Resolve the hashed requirements again (needs uv)
	$(RESOLVE) operator/pyproject.toml -o operator/requirements.txt
	$(RESOLVE) runtime/pyproject.toml -o runtime/requirements.txt
	$(RESOLVE) cli/pyproject.toml -o cli/requirements.txt
	for extra in gpu openvino pip tables text; do $(RESOLVE) --extra $$extra -c runtime/requirements.txt runtime/pyproject.toml -o runtime/requirements-$$extra.txt || exit; done
	$(RESOLVE) --group dev operator/pyproject.toml runtime/pyproject.toml cli/pyproject.toml -o requirements/dev.txt
	echo hatchling | $(RESOLVE) - -o requirements/build.txt
	printf 'tritonclient[http,grpc]\n' | $(RESOLVE) - -o requirements/clients.txt
	printf 'kserve\n' | $(RESOLVE) - -o requirements/clients-kserve.txt
	printf 'llama-cpp-python[server]\ngguf\n' | $(RESOLVE) - -o requirements/openai.txt
	printf '%s\n' gguf mlserver==1.7.1 mlserver-sklearn==1.7.1 mlserver-xgboost==1.7.1 mlserver-lightgbm==1.7.1 | $(RESOLVE) - -o tests/e2e/peers/runtimes/requirements.txt
	echo atheris | $(RESOLVE) - -o requirements/fuzz.txt
	echo mutmut | $(RESOLVE) -c requirements/dev.txt - -o requirements/mutation.txt
	printf 'scikit-learn\nskl2onnx\n' | $(RESOLVE) -c requirements/dev.txt - -o requirements/tutorials.txt
	echo zensical | $(RESOLVE) - -o requirements/docs.txt
	echo pip-audit | $(RESOLVE) - -o requirements/audit.txt
	onnxruntime=$$(sed -n 's/^\(onnxruntime==[^ ]*\).*/\1/p' runtime/requirements.txt); \
	for peer in triton:nvidia-pytriton==0.7.0 mlserver:mlserver==1.7.1 kserve:kserve==0.21.0; do \
	  printf '%s\n' "$${peer#*:}" "$$onnxruntime" | $(RESOLVE) - -o benchmarks/peers/$${peer%%:*}/requirements.txt || exit; \
	done

clean: ## Remove build output and the virtual environment
	rm -rf build $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
