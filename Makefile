# The front door: every target is one line into meson or scripts/.
#
#   make run ARGS="--seconds 5"      options for the programs that a target starts
#   make test BUILD=build-clang CXX=clang++ SETUP="-Db_sanitize=address,undefined"
#   make install PREFIX=/opt/tvec DESTDIR=/tmp/stage SETUP=-During=disabled

BUILD ?= build
SETUP ?=
ARGS ?=
ONLY ?=
TIME ?= 60
PREFIX ?= /usr/local
# A build folder stays as it is unless something is asked for.
KEEP = $(if $(SETUP)$(CXXFLAGS)$(CFLAGS)$(LDFLAGS)$(filter-out default undefined,$(origin CXX)),,--keep)
# Of three tests, two sleep most of their time.
TESTS_AT_A_TIME ?= $(shell expr 3 '*' $$(nproc))
export DESTDIR
# meson, too, has it build.
export NINJA := $(CURDIR)/scripts/ninja

.DEFAULT_GOAL := help
.PHONY: help run demo run-durable durable-faults test exhaustive fuzz mutants coverage bench bench-full \
	bench-drivers bench-programs bench-durable integrations soak install uninstall deb dist docs check format \
	hooks bootstrap configure clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

run: configure ## serve thousands of connections for 20 s, every timeout on the wheel
	@scripts/ninja -C $(BUILD) servers && BUILD_DIR=$(BUILD) servers/run-under-load $(ARGS)

.PHONY: demo
demo: configure ## a page on which the wheel of a server turns, under a load that you set; ten minutes
	@scripts/ninja -C $(BUILD) servers && BUILD_DIR=$(BUILD) tools/demo $(ARGS)

run-durable: configure ## orders on durable timers, killed with -9 and started again; nothing is lost. STORE=redis
	@scripts/ninja -C $(BUILD) durable-programs && BUILD_DIR=$(BUILD) durable/examples/run-orders $(ARGS)

test: configure ## build and run the test suite
	@meson test -C $(BUILD) --print-errorlogs --num-processes $(TESTS_AT_A_TIME) $(ARGS)

exhaustive: configure ## visit every state of small wheels: half an hour, and gigabytes
	@meson test -C $(BUILD) --verbose --num-processes 1 --suite long $(ARGS)

fuzz: ## fuzz the wheel and the clock beside their models for TIME seconds, and each parser a sixth of it
	@scripts/fuzz --time "$(TIME)" $(ARGS)

durable-faults: configure ## kill and stop processes with durable timers, cut their power, their links; TIME seconds each
	@scripts/ninja -C $(BUILD) durable-faults
	@durable/tests/programs/faults.py $(BUILD)/tests/to_be_killed --time "$(TIME)"
	@durable/tests/programs/faults.py $(BUILD)/tests/to_be_killed --time "$(TIME)" --crashes
	@durable/tests/programs/faults.py $(BUILD)/tests/to_be_killed --time "$(TIME)" --reads
	@durable/tests/programs/faults.py $(BUILD)/tests/to_be_killed --time "$(TIME)" --stops
	@durable/tests/programs/faults.py $(BUILD)/tests/to_be_killed --time "$(TIME)" \
		--clocks $(abspath $(BUILD))/tests/libset_clock.so
	@durable/tests/programs/faults.py $(BUILD)/tests/to_be_killed --time "$(TIME)" \
		--power-cuts $(abspath $(BUILD))/tests/libwhat_was_synced.so
	@for harm in kills crashes stops cuts server-kills power-cuts failovers clocks slow-link; do \
		durable/tests/programs/redis_faults.py $(BUILD)/tests/to_be_killed \
			$(abspath $(BUILD))/tests/lib$$([ $$harm = clocks ] && echo set_clock || echo what_was_synced).so $$harm --time "$(TIME)" || [ $$? = 77 ] || exit 1; \
	done

mutants: ## put each fault that tests/mutants.toml lists into the library, and run the tests on it
	@scripts/mutate $(ARGS)

coverage: ## count which lines and branches of the library the tests reach
	@scripts/coverage $(ARGS)

bench: ## measure every operation beside what people use now: libuv, libev, Asio, ...; 7 minutes
	@scripts/bench --netty $(ARGS)

bench-full: ## the same from 10^2 to 10^7 timers, with more repetitions: hours
	@scripts/bench --full --netty $(ARGS)

bench-drivers: ## measure how late each driver wakes its loop, and what that costs; 2 minutes
	@scripts/bench --drivers $(ARGS)

bench-durable: ## durable timers on SQLite and Redis beside polling, there and in PostgreSQL, and BullMQ; 8 minutes
	@scripts/bench --durable $(ARGS)

bench-programs: ## a server's day on tvec, libuv and Asio: whole programs, by hyperfine
	@scripts/bench --programs $(ARGS)

integrations: ## servers that people run, stock and on tvec: tests and loads on both; ONLY=nginx for one
	@integrations/run $(ONLY)

soak: bootstrap ## serve for ten minutes under ASan and ten at full speed; nothing early, lost, or leaked
	@servers/soak $(ARGS)

install: ## build optimized, and install into PREFIX: libraries, headers, pkg-config, CMake
	@scripts/install --prefix "$(PREFIX)" $(SETUP)

uninstall: ## remove from PREFIX what `make install` has put there
	@scripts/install --remove --prefix "$(PREFIX)" $(SETUP)

deb: ## build the Debian packages, into build-deb
	@scripts/deb

dist: ## pack a release into build-dist: sources, single header, wrap file, checksums
	@scripts/dist

docs: ## make a site of headers and guides in build-docs; fails if anything public is not documented
	@scripts/docs

check: ## what CI runs: both compilers, sanitizers, analysers, consumers, a short load
	@.ci/run

format: ## format the sources in place
	@scripts/check formatted

hooks: ## have git run the quick checks before each commit of this clone
	@git config core.hooksPath scripts/hooks
	@echo "core.hooksPath is scripts/hooks: git runs scripts/hooks/pre-commit before each commit of this clone"

bootstrap: ## install the Debian packages that the build, the tests and the examples need
	@scripts/bootstrap

configure: bootstrap
	@scripts/configure $(KEEP) $(BUILD) -During=enabled -Dtests=enabled -Dexamples=enabled -Dbench=disabled $(SETUP)

clean: ## remove the build folder, and that of `make install`
	@rm -rf $(BUILD) build-install
