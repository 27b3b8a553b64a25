# Two commands are enough on a fresh machine: `make dev` (a name server and a broker, ready for a Java client) and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
TOOLS := $(VENV)/.tools
SPARK := $(VENV)/.spark
WHEELS := $(VENV)/.wheels
PYSPARK ?= 4.3
ARGS ?=
PART ?=
IMAGE ?= apache/rocketmq:5.5.0

# The servers that tests and benchmarks start are to find their modules compiled, as an installed package does; otherwise each start
# compiles all of them anew, which takes longer than the start itself.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-spark dev test check fast java test-spark bench bench-store bench-spark truth pages conform conform-docker conform-matrix nightly fuzz clean

help:  ## print these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@echo "setting up $(VENV), once: half a minute, or what the network takes"
	@$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(TOOLS): $(RUN)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,dev,docker]'
	@touch $@

# PySpark comes as sources: with `make -j2` its wheel is built beside everything else.
$(WHEELS)/.spark-$(PYSPARK): | $(BIN)/python
	@$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps -w $(WHEELS) 'pyspark==$(PYSPARK).*'
	@touch $@

$(SPARK)-$(PYSPARK): $(TOOLS) | $(WHEELS)/.spark-$(PYSPARK)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -f $(WHEELS) -e '.[spark,s3]' 'pyspark==$(PYSPARK).*'
	@rm -f $(SPARK)-*
	@$(BIN)/python -m tests.spark.cluster
	@touch $@

setup: $(TOOLS)  ## make .venv with everything that tests and checks need

setup-spark: $(SPARK)-$(PYSPARK)  ## the same with PySpark and S3 (PYSPARK=4.2 takes another version)

dev: $(RUN)  ## start a name server and a broker in one process, ready for a Java client (ARGS="--help" shows what it takes)
	@exec $(BIN)/rmq dev $(ARGS)

test: $(TOOLS)  ## run all tests, those with stock Java clients and in Spark included where these are there; print what each part took
	@$(BIN)/python -m tests.parts $(ARGS)

fast: $(TOOLS)  ## run the tests that need neither Java nor Docker nor Spark
	@$(BIN)/python -m tests.parts --without java --without docker --without s3 --without spark --without jobs $(ARGS)

java: $(TOOLS)  ## run only the tests with stock Java clients, mqadmin and the real broker
	@$(BIN)/python -m tests.parts --only java $(ARGS)

test-spark: $(SPARK)-$(PYSPARK)  ## run the tests of stores in Spark, S3 included (needs a JDK; PYSPARK=4.2 takes another version)
	@$(BIN)/python -m tests.parts --only s3 --only spark --only jobs $(ARGS)

check: $(TOOLS)  ## ruff, its formatter and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

bench: $(TOOLS)  ## our broker and the real Java broker under the same load in the same run (needs gcc, JDK, Maven)
	@$(BIN)/python -m bench.compare $(ARGS)

bench-store: $(TOOLS)  ## the store of both: dispatch lag, cold reads, sends beside them, a start after a crash (needs gcc, JDK, Maven)
	@$(BIN)/python -m bench.store_compare $(ARGS)

bench-spark: $(SPARK)-$(PYSPARK)  ## the jobs on Spark beside a plain read of the same files (local[2]; 10 minutes, 23 GB of disk)
	@$(BIN)/python -m bench.spark $(ARGS)

truth: $(TOOLS)  ## read codes, headers and defaults out of the Java jars again (needs JDK, Maven)
	@$(BIN)/python -m conformance.truth $(ARGS)

pages: $(TOOLS)  ## make every generated page again: of the conformance suite, its controls, the torture, the ledger and others
	@$(BIN)/python -m tests.pages

CONFORM := $(BIN)/rmq conform --expected
OUTCOME = --json build/$@/results.json --junit build/$@/junit.xml --html build/$@/index.html --logs build/$@/logs

conform: $(TOOLS)  ## the conformance suite against our broker and Apache RocketMQ 5.5.0 (needs JDK, Maven; ARGS="--only pull")
	@$(CONFORM) --ours --jars 5.5.0 $(OUTCOME) $(ARGS)

conform-docker: $(TOOLS)  ## the conformance suite against Apache RocketMQ in containers (needs Docker; IMAGE=apache/rocketmq:5.5.0)
	@$(CONFORM) --docker $(IMAGE) $(OUTCOME) $(ARGS)

SUBJECTS = ours jars-5.5.0 jars-5.3.3 jars-4.9.7 docker

conform-matrix: $(TOOLS)  ## all subjects side by side; conformance/reports/matrix.json anew (SUBJECTS="ours jars-5.5.0" takes fewer)
	@for subject in $(SUBJECTS); do \
	  case $$subject in jars-*) taken="--jars $${subject#jars-}";; docker) taken="--docker $(IMAGE)";; *) taken=--$$subject;; esac; \
	  $(CONFORM) $$taken --json build/$@/$$subject.json || exit; done
	@$(BIN)/rmq conform merge --expected --brief $(SUBJECTS:%=build/$@/%.json) --json conformance/reports/matrix.json --html build/$@/index.html

nightly: $(if $(filter spark jobs s3,$(or $(PART),spark)),$(SPARK)-$(PYSPARK),$(TOOLS))  ## the long variants: fuzzing, many rounds, every Java version, mutants, Spark's other version (PART="store mutants": some of them)
	@$(if $(PART),,$(BIN)/python -m tests.parts --left-out)
	@$(BIN)/python -m tests.night $(PART:%=--step %) $(ARGS)

clean:  ## remove what was built
	@rm -rf $(VENV) tests/java/target tests/java/lib-* .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
