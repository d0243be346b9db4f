# The commands of the project. The work itself is done by nginx's own build, by CMake, and by the
# scripts in tools/.

NGINX_SOURCE ?= /usr/share/nginx/src
MODULES_DIR ?= /usr/lib/nginx/modules
PORT ?= 8080
MINUTES ?= 30
SEED ?= 1
MUTANTS ?= 20
WORLDS ?= 1000
# Link-time optimization. `off` builds the module in a sixth of the CPU, for the day's work: a check then takes a tenth
# more instructions. Whoever installs what `make` builds has it on.
LTO ?= on
BUILDER ?= https://redis-rate-limit.example/builders/unnamed
export PORT MINUTES SEED

MODULE = build/ngx_http_redis_rate_limit_module.so
NAME = $(notdir $(MODULE))
SOURCES = $(shell find src -type f -not -path 'src/replay/*') $(wildcard lua/*.lua dashboard/*) VERSION
CONFIGURED_BY = config config.make tools/configure-nginx build/configured.sum
# Those of packages need a Debian of their own, and the soak takes long.
TESTS ?= $(filter-out t/packages/% t/soak/%,$(wildcard t/*/*.t))
SECONDS ?= 60
# For commands that do all there is to do; `make` itself does as it is told by -j.
ON_ALL_CORES = --jobs=$$(nproc)

.PHONY: all replay run check test test-asan test-tsan test-arm64 fuzz simulate simulate-leases test-same-runs soak mutants bench install deb release releases test-deb test-deb-arm64 test-release test-upgrade test-rpm test-image test-tracing lint format clean help FORCE
.DELETE_ON_ERROR:

all: $(MODULE)

help:
	@echo 'make            builds $(MODULE) against the installed nginx'
	@echo '                (LTO=off: in a sixth of the CPU, and a little slower)'
	@echo 'make replay     builds build/redis-rate-limit-replay, which tells what rules would have done to a log'
	@echo 'make run        installs what is missing, builds, and serves a demonstration on PORT=$(PORT)'
	@echo 'make test       installs what is missing, builds, runs all tests (TESTS= some of t/)'
	@echo 'make check      the same of the unit tests, some fleets and a test or two of each folder, with LTO=off'
	@echo 'make test-asan  the same with AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make test-tsan  runs the unit tests of what workers share, with ThreadSanitizer'
	@echo 'make test-arm64 runs the unit tests, built for arm64, by qemu'
	@echo 'make fuzz       runs each fuzz target for SECONDS=$(SECONDS)'
	@echo 'make simulate   fleets in one process with faults of all kinds: WORLDS=$(WORLDS) from SEED=$(SEED) on'
	@echo 'make simulate-leases'
	@echo '                what hosts with leases grant of what a rule allows, in many cases (GROUP=docs: those of docs/leases.md)'
	@echo 'make test-same-runs'
	@echo '                runs fleets that were built by other compilers, with sanitizers, and for arm64: a seed is always the same run'
	@echo 'make soak       faults of all kinds under load for MINUTES=$(MINUTES), by chance from SEED=$(SEED); then, of at least 10'
	@echo '                minutes, all commands of this list that `make test` does not run'
	@echo 'make mutants    puts MUTANTS=$(MUTANTS) small mistakes into the code by chance from SEED=$(SEED), tells which no test'
	@echo '                notices (FILES= some sources, CHANGE= a commit: only lines changed since, TESTS= some of t/,'
	@echo '                PROGRAMS=simulation: simulated fleets judge, and no unit test)'
	@echo 'make bench      measures against nginx alone and limit_req, writes docs/benchmark.md and a part of README.md'
	@echo '                (BASE= a commit to compare with)'
	@echo 'make install    puts the module into MODULES_DIR=$(MODULES_DIR)'
	@echo 'make deb        installs what is missing, builds Debian packages into build/'
	@echo 'make release    makes what is published of a release of this commit into build/release (BUILDER= a URI of who builds,'
	@echo '                KEY= a secret key of minisign)'
	@echo 'make releases   the same for each Debian and machine that has packages, in build/releases (as root, on amd64)'
	@echo 'make test-deb   builds the packages, and tests them in a Debian of their own (as root)'
	@echo 'make test-deb-arm64'
	@echo '                builds the packages for arm64, and runs them by qemu (as root)'
	@echo 'make test-release'
	@echo '                makes a release twice, in other folders, by other users, at other times, and compares'
	@echo 'make test-upgrade'
	@echo '                runs hosts with the module of BASE=, else of each release, beside and before those with this one'
	@echo 'make test-rpm   checks the RPM spec and builds it, with stubs for macros that Debian lacks'
	@echo 'make test-image builds docker/official from SOURCE=, an unpacked nginx, and tests it (as root)'
	@echo 'make test-tracing'
	@echo '                builds nginx-otel from NGINX_OTEL=, its unpacked sources, in a Debian 13, and checks its spans (as root)'
	@echo 'make lint       checks layout, names and usual mistakes'
	@echo 'make format     lays out the C++ sources'
	@echo 'make clean      removes build/'

# Builds stream's module, too, where nginx has stream. New files, for an nginx that runs has the old ones
# in its memory, and would crash.
$(MODULE): build/nginx/Makefile $(SOURCES)
	$(MAKE) -C $(NGINX_SOURCE) -f $(CURDIR)/$< $(if $(filter off,$(LTO)),REDIS_RATE_LIMIT_CFLAGS=-fno-lto) modules
	cp --remove-destination build/nginx/ngx_*_redis_rate_limit_module.so build

build/nginx/Makefile: $(CONFIGURED_BY)
	tools/configure-nginx $(NGINX_SOURCE) build/nginx

# nginx's configure makes the list of sources: a file that comes or goes makes it anew. An update of
# nginx brings other headers with old dates: what was built with the ones before must go, see "Build
# against the headers" in the README. So must what a checkout that was copied or moved brings along:
# it is of the sources at the old place; and what was built with the other LTO.
build/configured.sum: FORCE
	@mkdir -p build
	@(pwd; echo $(LTO); find src lua dashboard -type f -not -path 'src/replay/*' | LC_ALL=C sort; find $(NGINX_SOURCE) -type f 2>/dev/null | LC_ALL=C sort | xargs cat /dev/null) | cksum >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

FORCE:

replay:
	tools/install-packages replay
	cmake -S . -B build/replay -D BUILD_TESTING=OFF -D SANITIZE=OFF -D CMAKE_BUILD_TYPE=Release
	cmake --build build/replay --parallel $$(nproc) --target redis-rate-limit-replay
	cp --remove-destination build/replay/redis-rate-limit-replay build/redis-rate-limit-replay

# In two steps: a make started anew finds what the first one installed.
run:
	tools/install-packages run
	$(MAKE) $(ON_ALL_CORES) all
	tools/run-demo

# A test or two of each folder.
CHECKS = $(addprefix t/,api/operations.t configuration/directives.t configuration/rules.t http/headers.t http/phases.t \
	http/variables.t live/overrides.t metrics/outcomes.t redis/breaker.t redis/outage.t rules/algorithm_responses.t \
	rules/calendar.t rules/deny_cache.t rules/final_cost.t rules/leases.t rules/limit.t rules/several_rules.t \
	simulation/fleets.t stream/sessions.t tools/mistakes.t workers/reload.t)
check:
	tools/install-packages test
	$(MAKE) $(ON_ALL_CORES) LTO=off all
	cmake -S . -B build/cmake
	cmake --build build/cmake --parallel $$(nproc) --target unit_tests protocol_tests
	$(MAKE) $(SIMULATE)
	tools/run-tests build/cmake/unit_tests build/cmake/protocol_tests $(CHECKS)

test:
	tools/install-packages test
	$(MAKE) $(ON_ALL_CORES) all
	$(MAKE) unit-tests optimized-tests
	tools/run-tests build/cmake/unit_tests build/cmake/protocol_tests build/cmake/replay_tests $(TESTS)

.PHONY: unit-tests optimized-tests
unit-tests:
	cmake -S . -B build/cmake
	cmake --build build/cmake --parallel $$(nproc)

# What calculates long runs without a sanitizer, which makes it take several times as long; `make test-asan` runs it
# with one.
OPTIMIZED_TESTS = simulate true_to_redis lease_simulation_tests algorithm_tests
SIMULATE = build/simulation/simulate
SIMULATE_LEASES = build/simulation/simulate_leases
.PHONY: $(SIMULATE) $(SIMULATE_LEASES) packages-of-tests
packages-of-tests:
	tools/install-packages test
$(SIMULATE) $(SIMULATE_LEASES): packages-of-tests
optimized-tests $(SIMULATE) $(SIMULATE_LEASES):
	cmake -S . -B build/simulation -D SANITIZE=OFF -D CMAKE_BUILD_TYPE=Release
	cmake --build build/simulation --parallel $$(nproc) --target $(if $(filter optimized-tests,$@),$(OPTIMIZED_TESTS),$(@F))

# nginx is not built with a sanitizer: its runtime is loaded before it. So is cctz, which keeps the time
# zones that it has read for ever: unloaded with the module, it would count as a leak. The demonstration
# that a test runs is without a sanitizer. Link-time optimization is off, so that the functions which a
# report names are those of the sources.
SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
test-asan: export ASAN_OPTIONS = detect_leaks=0
test-asan:
	tools/install-packages test
	tools/configure-nginx $(NGINX_SOURCE) build/asan '$(SANITIZE)'
	$(MAKE) $(ON_ALL_CORES) -C $(NGINX_SOURCE) -f $(CURDIR)/build/asan/Makefile REDIS_RATE_LIMIT_CFLAGS=-fno-lto modules
	$(MAKE) $(ON_ALL_CORES) all
	$(MAKE) unit-tests
	cmake --build build/cmake --parallel $$(nproc) --target $(OPTIMIZED_TESTS)
	ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS=suppressions=$(CURDIR)/t/lib/leaks.supp:print_suppressions=0 \
	RATE_LIMIT_MODULE=build/asan/$(NAME) OPTIMIZED=build/cmake \
	RATE_LIMIT_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so) $$($(CC) -print-file-name=libcctz.so)" \
	tools/run-tests $(TESTS)

test-tsan:
	tools/install-packages test
	cmake -S . -B build/tsan -D SANITIZE_THREADS=ON
	cmake --build build/tsan --parallel $$(nproc) --target unit_tests
	build/tsan/unit_tests --gtest_filter='LeaseBook*:LiveLimits*:ProcessClaim*:SharedTable*:TopKeys*:RuleCounters*'

# Without a sanitizer, which qemu does not run.
.PHONY: build/arm64
build/arm64:
	tools/install-packages arm64
	tools/get-arm64-libraries build/arm64-libraries
	cmake -S . -B build/arm64 -D CMAKE_TOOLCHAIN_FILE=$(CURDIR)/tools/arm64.cmake -D SANITIZE=OFF

test-arm64: build/arm64
	cmake --build build/arm64 --parallel $$(nproc) --target unit_tests
	tools/run-tests tools/run-arm64

fuzz:
	tools/install-packages fuzz
	cmake -S . -B build/fuzz -D CMAKE_CXX_COMPILER=clang++ -D FUZZ=ON
	cmake --build build/fuzz --parallel $$(nproc) --target fuzzers
	tools/run-fuzzers $(SECONDS)

simulate: $(SIMULATE)
	$(SIMULATE) --seed $(SEED) --worlds $(WORLDS)

simulate-leases: $(SIMULATE_LEASES)
	perl t/simulation/run.pl $(SIMULATE_LEASES) '$(GROUP)'

test-same-runs: $(SIMULATE) build/arm64
	tools/install-packages fuzz
	cmake -S . -B build/clang -D CMAKE_CXX_COMPILER=clang++ -D SANITIZE=OFF -D CMAKE_BUILD_TYPE=Release
	cmake -S . -B build/cmake
	for build in clang cmake arm64; do cmake --build build/$$build --parallel $$(nproc) --target simulate || exit; done
	PROGRAMS='$(SIMULATE); setarch -R $(SIMULATE); build/clang/simulate; build/cmake/simulate; tools/run-arm64 simulate' \
	WORLDS=20 tools/run-tests t/simulation/same_runs.t
	tools/find-mistakes 'two runs'

# The slot is open for ten minutes of thirty.
soak: $(SIMULATE)
	tools/install-packages test
	$(MAKE) all
	tools/run-tests t/soak/soak.t
	LEASES_HOSTS=4 LEASES_SECONDS=$$((4 * MINUTES)) WORLDS=$$((400 * MINUTES)) ANSWERS=10000 \
	RATE_LIMIT_OPEN_SLOT=$$((20 * MINUTES)) tools/run-tests \
		t/rules/leases_exact.t t/simulation/fleets.t t/rules/response_costs_exact.t t/redis/cluster_open_slot.t
	$(MAKE) unit-tests optimized-tests
	[ $$MINUTES -lt 10 ] || LEASES_MODEL=long tools/run-tests build/cmake/protocol_tests # takes minutes
	[ $$MINUTES -lt 10 ] || RUNS=1000 tools/run-tests t/simulation/true_to_redis.t
	[ $$MINUTES -lt 10 ] || CALENDARS=long tools/run-tests t/model/calendars.t
	[ $$MINUTES -lt 10 ] || LIVES_MODEL=long tools/run-tests t/rules/algorithms.t
	[ $$MINUTES -lt 10 ] || ANALYZE=1 tools/run-commands # takes hours

mutants:
	tools/install-packages test
	tools/run-mutants --count=$(MUTANTS) --seed=$(SEED) $(if $(CHANGE),--change='$(CHANGE)') --tests='$(TESTS)' \
		$(if $(PROGRAMS),--programs='$(PROGRAMS)') $(FILES)

bench:
	tools/install-packages bench
	$(MAKE) LTO=on all $(EMPTY_SCRIPT)/$(MODULE) $(BASE_MODULE)
	cmake -S . -B build/cmake
	cmake --build build/cmake --parallel $$(nproc) --target print_script paced_client
	@mkdir -p build/bench
	BASE_MODULE=$(BASE_MODULE) perl t/bench/requests.pl
	perl t/bench/leases.pl
	perl t/bench/scripts.pl >build/bench/scripts.md
	perl t/bench/streams.pl >build/bench/streams.md
	perl t/bench/connections.pl >build/bench/connections.md
	perl t/bench/report.pl

# The module with a gcra that does nothing, to compare with, from a copy of the tree.
EMPTY_SCRIPT = build/empty_script
$(EMPTY_SCRIPT)/$(MODULE): $(SOURCES) $(CONFIGURED_BY) t/bench/empty_check.lua
	mkdir -p $(EMPTY_SCRIPT)
	rm -rf $(EMPTY_SCRIPT)/src $(EMPTY_SCRIPT)/lua
	cp -r -p Makefile config config.make VERSION src lua dashboard tools $(EMPTY_SCRIPT)
	cp t/bench/empty_check.lua $(EMPTY_SCRIPT)/lua/bucket.lua
	$(MAKE) -C $(EMPTY_SCRIPT) all
	touch $@

# The module of another commit, to compare with, or of several.
BASE_MODULE = $(if $(BASE),$(patsubst %,build/base/%/$(MODULE),$(shell git rev-parse $(BASE))))
build/base/%/$(MODULE):
	mkdir -p build/base/$*
	git archive $* | tar -x -C build/base/$*
	$(MAKE) -C build/base/$* all

install: $(MODULE)
	install -d $(DESTDIR)$(MODULES_DIR)
	install -m 644 build/ngx_*_redis_rate_limit_module.so $(DESTDIR)$(MODULES_DIR)

deb:
	tools/install-packages deb
	tools/build-deb

release:
	tools/install-packages release
	tools/make-release '$(BUILDER)' $(KEY)

releases:
	tools/install-packages releases
	tools/make-releases '$(BUILDER)' $(KEY)

test-deb:
	tools/install-packages test-deb
	tools/test-deb

test-deb-arm64:
	tools/install-packages test-deb-arm64
	tools/test-deb-arm64

test-release:
	tools/install-packages test-release
	tools/run-tests t/packages/release.t

# 0.1.0 and 0.2.0
test-upgrade: BASE = e3dea57c0a2776998f21a2fe8f2fdab3ad5065dd 7602641d160d78e1a7ed0954746b205d9602a4f8
test-upgrade:
	tools/install-packages test
	$(MAKE) all $(BASE_MODULE)
	for module in $(BASE_MODULE); do PREVIOUS_MODULE=$$module tools/run-tests t/workers/versions.t || exit; done

test-rpm:
	tools/install-packages test-rpm
	tools/test-rpm

test-image:
	tools/install-packages test-image
	tools/test-image '$(SOURCE)'

test-tracing:
	tools/install-packages test-tracing
	tools/test-tracing '$(NGINX_OTEL)'

lint:
	tools/install-packages lint
	$(MAKE) build/nginx/Makefile
	tools/lint $(NGINX_SOURCE)

format:
	clang-format -i $$(find src t -name '*.?pp')

clean:
	rm -rf build
