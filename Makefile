# Entry points for developers: every target is one call of meson or of a script.
#
#   make run ARGS="--seconds 5"      options for the programs that a target starts
#   make test BUILD=build-clang CXX=clang++ SETUP="-Db_sanitize=address,undefined"
#   make install PREFIX=/opt/tvec DESTDIR=/tmp/stage SETUP=-During=disabled

BUILD ?= build
SETUP ?=
ARGS ?=
ONLY ?=
PORT ?= 8080
PREFIX ?= /usr/local
# Without SETUP, CXX and flags an existing build folder is not reconfigured.
KEEP = $(if $(SETUP)$(CXXFLAGS)$(CFLAGS)$(LDFLAGS)$(filter-out default undefined,$(origin CXX)),,--keep)
# Three parallel tests per processor, because two of three mostly sleep.
TESTS_AT_A_TIME ?= $(shell expr 3 '*' $$(nproc))
export DESTDIR
# meson builds through it, too.
export NINJA := $(CURDIR)/scripts/build/ninja

.DEFAULT_GOAL := help
.PHONY: help run demo test one bench integrations install uninstall deb dist docs check check-release format configure clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

run: configure ## serve thousands of connections for 20 s, every timeout on the wheel
	@scripts/build/ninja -C $(BUILD) server && BUILD_DIR=$(BUILD) examples/server/run-under-load $(ARGS)

demo: ## tvec and the wheel of Linux until 4.7, turning side by side in your browser
	@scripts/bootstrap demo && docs/demo/build build-demo
	@echo "open http://127.0.0.1:$(PORT) (Ctrl-C ends it)"
	@python3 -m http.server --bind 127.0.0.1 --directory build-demo $(PORT)

test: configure ## does the library keep its promises on this machine? builds and runs the tests of a user
	@meson test -C $(BUILD) --print-errorlogs --num-processes $(TESTS_AT_A_TIME) $(ARGS)

one: configure ## build and run one test file: TEST=tests/core/waking.cpp ARGS="--filter=*/a_lone*"
	@BUILD_DIR=$(BUILD) scripts/build/one-test $(TEST) $(ARGS)

bench: ## measure the costs that README.md tells, here, in 5 minutes; ARGS=--full: every operation and structure; ARGS=--drivers
	@scripts/bench $(ARGS)

integrations: ## servers that people run, stock and on tvec: tests and loads on both; ONLY=nginx for one
	@integrations/run $(ONLY)

install: ## build optimized, and install into PREFIX: libraries, headers, pkg-config, CMake; under a minute
	@scripts/build/install --prefix "$(PREFIX)" $(SETUP)

uninstall: ## remove from PREFIX what `make install` has put there
	@scripts/build/install --remove --prefix "$(PREFIX)" $(SETUP)

deb: ## build the Debian packages, into build-deb
	@scripts/build/deb

dist: ## pack a release into build-dist: sources, single header, wrap file, checksums
	@scripts/build/dist

docs: ## make a site of headers and guides in build-docs; fails if anything public is not documented
	@scripts/pages/docs

check: ## what CI runs for each commit: tests, sanitizers, analysers, consumers, a short load, durable timers; a quarter of an hour
	@.ci/run

check-release: ## what else is checked each night, and before a release: docs/releasing.md; hours
	@$(MAKE) -f scripts/checks.mk -j$(shell nproc) -k for_releases
	@$(MAKE) -C durable -f checks.mk -j$(shell nproc) -k for_releases

format: ## format the sources in place
	@git ls-files --cached --others --exclude-standard '*.hpp' '*.cpp' '*.h' '*.c' | xargs clang-format -i

configure:
	@scripts/bootstrap
	@scripts/build/configure $(KEEP) $(BUILD) -During=enabled -Dtests=enabled -Dexamples=enabled -Dbench=disabled \
		-Dunity=on -Dunity_size=32 $(SETUP)

clean: ## remove the build folder, and that of `make install`
	@rm -rf $(BUILD) build-install
