# The checks: `make check` runs what is due for each commit, `make check-release` what else is due before a release, and
# `make -f scripts/checks.mk NAME` one of them. `-j2 -k` runs two at a time, and goes on after a failure.
#
# Readers: .ci/run, the hook, the table of CONTRIBUTING.md. A check is a target with its sentence behind `##`.
SHELL = scripts/checks/reported
.SHELLFLAGS = $@
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --output-sync=target
export NINJA := $(CURDIR)/scripts/build/ninja

hook = format snippets links tables arrows shellcheck
# The longest first, so that no processor waits for one of them in the end.
commit = $(hook) weight subjects gcc sanitizers release tidy threads proof small consumers windows headers instructions fuzz docs run
for_releases = busy sanitizers_gcc instructions_gcc proof_all clang_tests valgrind tidy_all all_consumers abi debian packaging portability mutants conditions soak
.PHONY: help hook commit for_releases durable user exhaustive $(commit) $(for_releases)

hook: $(hook)
commit: $(commit)
for_releases: $(for_releases)

# Those of durable timers for each commit. Their make shares the processors with this one.
durable: SHELL = bash
durable: .SHELLFLAGS = -c
durable:
	$(MAKE) -C durable -f checks.mk commit

# They use its folder.
instructions: release
run: gcc

help:
	@awk -F ':.*## ' '/^[a-z_]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' scripts/checks.mk >&2

# --- for each commit, and before it ------------------------------------------------------------------------------------

# An unpacked release has no git repository.
cpp_files = if [ -e .git ]; then git ls-files --cached --others --exclude-standard '*.hpp' '*.cpp' '*.h' '*.c'; \
	else find . -path './build*' -prune -o -regex '.*[.][hc]\(pp\)?' -print; fi

format: ## source files that .clang-format would write otherwise, and lines over 100 columns
	$(cpp_files) | xargs clang-format --dry-run -Werror
	$(cpp_files) | xargs awk 'length($$0) > 100 { print FILENAME ":" FNR ": over 100 columns"; bad = 1 } END { exit bad }'

snippets: ## code in pages that differs from the examples it is cut from
	scripts/pages/snippets

links: ## links that lead nowhere, files that no README lists, terms that no code has
	scripts/pages/page-links

tables: ## tables in pages that differ from the results and the lists they are made from
	scripts/pages/tables --check

arrows: ## includes against the arrows between rooms
	scripts/checks/include-arrows

shellcheck: ## faults in shell scripts, by shellcheck
	git ls-files scripts .ci tests integrations examples durable | xargs grep -lsE -d skip '^#!.*bash' | xargs shellcheck --external-sources

weight: ## more headers, targets, checks, options, pages or wide lines of prose than agreed
	scripts/checks/weight

subjects: ## commit subjects of the last day that are too long, or not in the imperative
	git rev-list --no-merges "$$(scripts/checks/newest-work)..HEAD" | xargs -r -n 1 scripts/hooks/commit-msg --commit

# --- builds and their tests ----------------------------------------------------------------------------------------------

# Debugging information has lines and no variables: reports show no more, and g++ compiles a quarter faster. -g1 stands
# last, because clang's -gdwarf-4 alone enables all of it.
build = $(MAKE) test BUILD=$(1) CXX=$(2) SETUP="-Dwerror=true -Ddebug=false $(3)"
hardened = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection
# More optimization would double g++'s compile time, and code that continues after a fault would add a sixth. The check of
# types reads through a pipe, and fails wrongly without a free descriptor: it alone continues. lld links large programs with
# sanitizers in a third of the time. All other builds use the linker of the users. A comma would end make's argument.
# Frames are larger, and callbacks of the model nest: they need more than the 8 MB of a stack.
both = address,undefined
sanitize = ulimit -s 65536; ARGS="--setup gate" LDFLAGS=-fuse-ld=lld CXXFLAGS="-fno-sanitize-recover=all -fsanitize-recover=vptr -g1" \
	$(call build,build-sanitizers-$(1),$(1),-Db_sanitize=$(both) -Doptimization=g -Dtest_programs=in_one_process $(2))

user: ## the README's test command: .ci/run begins with it, and `gcc` goes on in its folder
	CXXFLAGS=-g1 $(call build,build-gcc,g++,-Dbench=enabled)

gcc: ## failing tests that `make test` leaves to the gate, and warnings, with assertions
	ARGS="--setup gate --suite gate" CXXFLAGS=-g1 $(call build,build-gcc,g++,-Dbench=enabled)

sanitizers: ## memory errors, leaks and undefined behaviour in the tests, and warnings, by clang
	$(call sanitize,clang++,-Dexamples=disabled)

sanitizers_gcc: ## the same in examples too, by g++
	$(call sanitize,g++)

# Debian 12's valgrind cannot read clang's DWARF 5. Hardening costs nothing here, and fortifying needs optimization.
clang_tests: ## failing tests in a hardened build by clang
	ARGS="--setup gate --no-suite any_compiler" CXXFLAGS="-gdwarf-4 $(hardened) -Wno-cpp -g1" $(call build,build-clang-tests,clang++)

busy: ## tests that fail on a slow machine: `make test` three times beside two busy loops for each processor
	trap 'kill $$(jobs -p)' EXIT
	for _ in $$(seq $$((2 * $$(nproc)))); do while :; do :; done & done
	for _ in 1 2 3; do $(MAKE) test BUILD=build-busy; done

threads: ## data races, by TSan, in all programs with threads
	CXX=clang++ CXXFLAGS=-g1 LDFLAGS=-fuse-ld=lld scripts/build/configure build-threads -Dwerror=true -Db_sanitize=thread \
	    -Doptimization=1 -Ddebug=false -Dtests=enabled -Dtest_programs=in_one_process -Dbench=enabled -Dunity=on -Dunity_size=8
	meson test -C build-threads --setup gate --suite threads --print-errorlogs

valgrind: ## uninitialised reads and leaks in the tests
	CXX=g++ CXXFLAGS=-g1 scripts/build/configure build-valgrind -Dunity=on -Dunity_size=8 -Ddebug=false -Dtests=enabled \
	    -Dtest_programs=in_one_process -Dbench=disabled
	meson test -C build-valgrind --setup valgrind --print-errorlogs promises_core promises_at_length promises_clock \
	    promises_inspect promises_pool promises_mailbox promises_thread promises_coroutines model pool_model in_c

# The same options as scripts/checks/instructions, which reuses this folder. Of the rivals one: `gcc` compiles and compares all.
release: ## failing benchmarks and warnings in an optimized build without assertions and liburing
	CXX=clang++ scripts/build/configure build-release-clang++ -Dbuildtype=release -Db_ndebug=true -Dwerror=true \
	    -During=disabled -Dtests=disabled -Dexamples=disabled -Dbench=enabled -Dbench_structures=libev
	meson test -C build-release-clang++ --setup gate --print-errorlogs

instructions: ## an operation that needs over 2 % more instructions than stored, by clang
	scripts/checks/instructions clang++

instructions_gcc: ## the same, by g++
	scripts/checks/instructions g++

small: ## failing tests of the core with wheels of 11 and 3 KB, and programs that link with the wrong size
	CXX=g++ CXXFLAGS=-g1 scripts/build/configure build-small -Dwerror=true -Dsmall_wheel=true -During=disabled \
	    -Dexamples=disabled -Dbench=disabled -Dtests=enabled -Dunity=on -Dunity_size=8 -Ddebug=false
	TVEC_TOGETHER=1 TVEC_PERCENT=5 meson test -C build-small --setup gate --print-errorlogs promises_core promises_at_length \
	    promises_inspect model in_c proof_agrees
	if g++ -std=c++20 -Iinclude examples/first.cpp build-small/libtvec.a -o build-small/wrong_size 2>build-small/wrong_size.log; then
	    echo "a program for large wheels links with small ones" >&2
	    exit 1
	fi
	grep -q "undefined reference to .tvec::timer_wheel::timer_wheel" build-small/wrong_size.log
	CXX=g++ CXXFLAGS=-g1 scripts/build/configure build-tiny -Dwerror=true -Dsmall_wheel=tiny -During=disabled \
	    -Dexamples=disabled -Dbench=disabled -Dtests=enabled -Dunity=on -Dunity_size=8 -Ddebug=false
	TVEC_PERCENT=5 meson test -C build-tiny --setup gate --print-errorlogs model in_c proof_agrees

# By clang, alone; and by g++ what it alone warns of in a project that includes them as its own.
headers: ## headers that do not compile alone, by clang, or not after the macros of Qt, GLib and Windows
	without=""
	for guest in asio_:boost/asio.hpp libuv_:uv.h libevent_:event2/event.h; do
	    [ -e "/usr/include/$${guest#*:}" ] && continue
	    echo "not compiled, because /usr/include/$${guest#*:} is missing: $${guest%:*}*.hpp" >&2
	    without+=" -not -name $${guest%:*}*"
	done
	find include -name '*.hpp' -not -path '*/detail/*' $$without -printf '%P\n' | xargs -P "$${JOBS:-$$(nproc)}" -I HEADER sh -c \
	    'echo "#include \"HEADER\"" | clang++ -std=c++20 -Wall -Wextra -Wshadow-all -Werror -Iinclude -fsyntax-only -xc++ -'
	find include -name '*.hpp' $$without -printf '#include "%P"\n' | g++ -std=c++20 -Wall -Wextra -Wconversion -Wuseless-cast -Werror \
	    -Iinclude -fsyntax-only -xc++ -
	after_macros() { # NAMES COMPILER...: includes what the headers of these names do, then macros, then the headers
	    { find include -name "$$1" $$without -exec grep -hoE '^#include <.*>' {} + | grep -v '<asio/' | sort -u |
	          sed 's/#include \(.*\)/#if __has_include(\1)\n&\n#endif/'
	      echo '#include "tests/support/foreign_macros.h"'
	      find include -name "$$1" $$without -printf '#include "%P"\n'; } | "$${@:2}" -Wall -Wextra -Werror -Iinclude -I. -fsyntax-only -
	}
	after_macros '*.hpp' g++ -std=c++20 -xc++
	after_macros '*.h' gcc -std=gnu11 -xc

run: ## a server under load that loses a timer or a connection in five seconds
	$(MAKE) run BUILD=build-gcc ARGS="--seconds 5 --connections 1000"

fuzz: ## failures of the fuzz target within ten seconds
	scripts/checks/fuzz --time 10

exhaustive: ## faults in any state of small wheels: half an hour, and gigabytes
	$(MAKE) configure
	meson test -C build --verbose --num-processes 1 --setup long --suite long

soak: ## failures of the models, by new seeds, and of the fuzz target within four minutes
	scripts/checks/soak --time 240

# Python finds modules beside the script and in the system alone, and `proof_agrees` compares them with the library for each commit.
proof: ## lemmas of the wheel's arithmetic that Z3 refutes, and wrong variants that it does not, if tests/proof has changed
	git diff --quiet "$$(scripts/checks/newest-work)" -- tests/proof || tests/proof/prove.py

proof_all: ## the same, in any case, and functions of tvec.h that write more than their contracts say, by Frama-C
	tests/proof/prove.py
	scripts/bootstrap proof
	tests/proof/one_line

# --- analysers ---------------------------------------------------------------------------------------------------------------

tidy: ## what clang-tidy finds in sources that changed, or include what changed
	scripts/checks/tidy --since "$$(scripts/checks/newest-work)"

tidy_all: ## what clang-tidy finds in all sources
	scripts/checks/tidy

mutants: ## faults of tests/mutants.toml, a tenth at random, or of any line, one of 20, that no test notices; needless memory orders
	scripts/checks/mutate --share 10
	scripts/checks/mutate --generic --share 20
	meson test -C build-mutants/build --setup long --print-errorlogs orders_all

conditions: ## conditions of the code that no test shows to matter, and that are not listed as impossible
	scripts/checks/coverage

windows: ## sources that mingw-w64 refuses, and a game that goes otherwise under wine
	scripts/checks/portability --quick mingw

portability: ## other compilers, optimizations, 32 bits, ARM, big-endian, devices without a system, Windows, WebAssembly, macOS and musl
	scripts/bootstrap portability
	scripts/checks/portability

# --- pages, packages and users -------------------------------------------------------------------------------------------------

docs: ## public names without documentation, dead links in the site
	scripts/pages/docs

consumers: ## a library, C library or single header that a program cannot use as installed
	scripts/checks/consumers

all_consumers: ## any documented way to use tvec that does not work, and a release that is not reproducible
	scripts/checks/consumers --all

abi: ## functions and types of the libraries for C that are not those of the last release, and examples of it that do not compile
	scripts/bootstrap ci
	scripts/checks/abi

debian: ## Debian packages that do not build, that lintian rejects or that a program cannot use
	scripts/checks/debian

packaging: ## files without a licence, and a version that is not that of the library
	scripts/bootstrap packaging
	version=$$(sed -n 's/^#define TVEC_VERSION_STRING "\(.*\)".*/\1/p' include/tvec/version.hpp)
	reuse lint | tail -1
	grep -q "^version: $$version$$" CITATION.cff
