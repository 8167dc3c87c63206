# The checks of durable timers, as ../scripts/checks.mk has those of the wheel. Formats, pages, arrows and weight are checked
# there for both.
SHELL = ../scripts/checks/reported
.SHELLFLAGS = durable-$@
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --output-sync=target
export PROJECT := $(CURDIR)
export NINJA := $(CURDIR)/../scripts/build/ninja

commit = gcc sanitizers consumers threads headers fuzz
for_releases = campaigns alone sanitizers_gcc clang_tests valgrind tidy all_consumers clients debian
.PHONY: help commit for_releases $(commit) $(for_releases)
commit: $(commit)
for_releases: $(for_releases)

# It uses its folder.
consumers: gcc

help:
	awk -F ':.*## ' '/^[a-z_]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' checks.mk >&2

build = ARGS="--setup gate" TESTS_AT_A_TIME=6 $(MAKE) test BUILD=$(1) CXX=$(2) SETUP="-Dwerror=true -Ddebug=false -Dbench=enabled $(3)"
both = address,undefined
sanitize = LDFLAGS=-fuse-ld=lld CXXFLAGS="-fno-sanitize-recover=all -fsanitize-recover=vptr -g1 $(2)" \
	$(call build,build-sanitizers-$(1),$(1),-Db_sanitize=$(both) -Doptimization=g -Dtest_programs=in_one_process $(3))

gcc: ## failing tests, and warnings, with assertions
	CXXFLAGS=-g1 $(call build,build-gcc,g++)

sanitizers: ## memory errors, leaks and undefined behaviour in the tests, and warnings, by clang
	$(call sanitize,clang++,,-Dexamples=disabled -Dbench=disabled)

sanitizers_gcc: ## the same in examples too, by g++, whose sanitizers make it warn of std::regex
	$(call sanitize,g++,-Wno-maybe-uninitialized)

clang_tests: ## failing tests of a build by clang
	CXXFLAGS="-gdwarf-4 -g1" $(call build,build-clang-tests,clang++)

threads: ## data races, by TSan, in all programs with threads
	CXX=clang++ CXXFLAGS=-g1 LDFLAGS=-fuse-ld=lld ../scripts/build/configure build-threads -Dwerror=true -Db_sanitize=thread \
	    -Doptimization=1 -Ddebug=false -Dtests=enabled -Dtest_programs=in_one_process -Dunity=on -Dunity_size=8
	meson test -C build-threads --setup gate --suite threads --print-errorlogs

valgrind: ## uninitialised reads and leaks in the tests
	CXX=g++ CXXFLAGS=-g1 ../scripts/build/configure build-valgrind -Dunity=on -Dunity_size=8 -Ddebug=false -Dtests=enabled \
	    -Dtest_programs=in_one_process
	meson test -C build-valgrind --setup valgrind --print-errorlogs durable durable_redis

headers: ## headers that do not compile alone, by clang
	find include -name '*.hpp' -not -path '*/detail/*' -printf '%P\n' | xargs -P "$${JOBS:-$$(nproc)}" -I HEADER sh -c \
	    'echo "#include \"HEADER\"" | clang++ -std=c++20 -Wall -Wextra -Wshadow-all -Werror -I../include -Iinclude -fsyntax-only -xc++ -'

tidy: ## what clang-tidy finds in the sources
	../scripts/checks/tidy

fuzz: ## failures of what reads the bytes of others, servers and clients, within five seconds
	CXX=clang++ CXXFLAGS=-g1 ../scripts/build/configure build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Doptimization=2 \
	    -Ddebug=false -Dtests=disabled -Dexamples=disabled -Dtool=enabled -Dbench=disabled
	"$(NINJA)" -C build-fuzz --quiet tests/fuzz/fuzz_answers tests/fuzz/fuzz_foreign_bytes
	fuzz() { # NAME SECONDS
	    mkdir -p build-fuzz/found/$$1
	    build-fuzz/tests/fuzz/fuzz_$$1 -max_total_time=$$2 -max_len=1025 -artifact_prefix=build-fuzz/found/ build-fuzz/found/$$1 \
	        build-fuzz/tests/fuzz/corpus/$$1
	}
	fuzz answers 1
	fuzz foreign_bytes 4

# install OPTION...: the wheel, and durable timers on it as installed, into build-consumers/staged
install = rm -rf build-consumers/staged; \
	BUILD_DIR=$$PWD/build-consumers/wheel DESTDIR=$$PWD/build-consumers/staged PROJECT="$(CURDIR)/.." ../scripts/build/install --prefix /usr \
	    -During=disabled -Dprobes=disabled $(1); \
	PKG_CONFIG_PATH=$$PWD/build-consumers/staged/usr/lib/$$(dpkg-architecture -qDEB_HOST_MULTIARCH)/pkgconfig \
	BUILD_DIR=build-consumers/durable DESTDIR=$$PWD/build-consumers/staged ../scripts/build/install --prefix /usr -Dtool=disabled $(1)

consumers: ## a library that a program cannot use as installed
	rm -rf build-consumers/staged
	# A subproject's libraries are built if they are asked for.
	libraries=$$("$(NINJA)" -C build-gcc -t targets all | sed -n 's|^\(subprojects/tvec/libtvec[^/]*\): .*_LINKER$$|\1|p')
	"$(NINJA)" -C build-gcc all $$libraries
	DESTDIR=$$PWD/build-consumers/staged meson install -C build-gcc --no-rebuild --quiet
	tests/programs/consumers/run --few build-consumers/staged/usr/local

all_consumers: ## any documented way to use them that does not work
	$(call install,-Ddefault_library=both)
	tests/programs/consumers/run build-consumers/staged/usr

campaigns: ## timers that are lost, early or doubled in two minutes of each fault: kills, stops, cuts, power cuts, clocks, ...
	NODE_PATH=$$PWD/build-npm/node_modules $(MAKE) faults BUILD=build-gcc TIME=120

alone: ## a file that the checks of each commit read and ../scripts/checks/durable-due does not know
	rm -rf build-alone
	../scripts/checks/durable-due --clone durable/build-alone
	$(MAKE) -C build-alone/durable -f checks.mk --silent commit

clients: ## clients of Redis, PostgreSQL and hooks, oldest and newest, with which a page or a packaged worker fails
	scripts/bootstrap clients
	../scripts/build/configure build-clients -Ddefault_library=static -Dtests=disabled -Dexamples=disabled -Dtool=enabled \
	    -Dunity=on -Dunity_size=8
	"$(NINJA)" -C build-clients --quiet tools/tvec-timers
	for kind in redis postgres hook; do
	    NODE_PATH=build-npm/node_modules PYTHONPATH=../tests/programs tests/programs/clients.py build-clients/tools/tvec-timers .. \
	        $$kind --all
	done

# The release from which users upgrade, with so many timers stored.
old = d5ddeefa
TIMERS ?= 1000000
debian: ## Debian packages that do not build, install on an empty Debian, or upgrade the stores of 0.5.0 under load
	scripts/bootstrap deb ci debian
	../scripts/build/deb build-deb
	lintian --allow-root --fail-on error build-deb/*.changes
	tests/programs/on_debian build-deb
	rm -rf build-deb/old build-deb/new
	mkdir build-deb/old
	git -C .. archive $(old) | tar -x -C build-deb/old
	PROJECT="$(CURDIR)/build-deb/old/durable" ../scripts/build/configure build -Ddefault_library=static -Dtests=disabled \
	    -Dexamples=disabled -Dtool=enabled -Dunity=on -Dunity_size=8
	"$(NINJA)" -C build-deb/old/durable/build --quiet tools/tvec-timers
	dpkg-deb --extract build-deb/tvec-timers_*.deb build-deb/new
	for kind in file redis cluster postgres; do
	    PYTHONPATH=../tests/programs tests/programs/upgrade.py build-deb/old/durable/build/tools/tvec-timers \
	        build-deb/new/usr/bin/tvec-timers $$kind $(TIMERS) || [ $$? = 77 ]
	done
