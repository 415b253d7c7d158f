# check.mk - what is done with a build: packages, tests, static checks, fuzzers, the demonstration.

FUZZ_SECONDS ?= 60
# Steps that build call make again: after the packages are there, and on all cores unless told.
BUILD = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: deps house check check-long check-arm fuzz fuzzers demo
deps:
	@tools/deps.sh check

demo:
	@tools/deps.sh build
	@$(BUILD) cli
	@tools/demo.sh $(B)/foretoken

# Rules that a script can check: includes, sizes, words, format, headers, symbols.
house:
	@tools/deps.sh check
	@$(BUILD) lib
	@tools/house.sh $(B)

CLI_TESTS := $(sort $(wildcard tests/cli/*.sh)) tests/client/api.sh

check:
	@tools/deps.sh check
	@$(BUILD) all tests
	@tools/run-tests.sh $(B) tools/house.sh tools/check-arm.sh $(TESTS) $(REPLAYS) $(CXX_TEST) \
	  $(CLI_TESTS)

# The same suite of another build, for tools/check-long.sh.
.PHONY: check-suite
check-suite:
	@$(BUILD) all tests
	@tools/run-tests.sh -t $(TOTALS) $(B) $(TESTS) $(REPLAYS) $(CXX_TEST) $(CLI_TESTS)

# The server's tests of another build, for tools/check-long.sh.
.PHONY: check-server
SERVER_TESTS := $(filter $(B)/tests/unit/test_server_%,$(TESTS))
check-server:
	@$(BUILD) $(SERVER_TESTS)
	@tools/run-tests.sh -t $(TOTALS) $(B) $(SERVER_TESTS)

check-long:
	@tools/deps.sh long
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/check-long.sh

# The build for aarch64 under an emulator.
check-arm:
	@tools/check-arm.sh

fuzz:
	@tools/deps.sh check
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz.sh

# libFuzzer targets. Only for tools/fuzz.sh, which sets CC=clang and SAN=fuzzer-no-link,...
fuzzers: $(FUZZERS)
define FUZZER_RULE
$(B)/tests/fuzz/fuzz_$(1): tests/fuzz/fuzz_$(1).c $$(HELPER_LIB) $$(call objs_for,$(call room_of,fuzz_$(1))) $(B)/flags
	@mkdir -p $$(@D)
	$$(if $$(Q),@echo '  FUZZ  $$<')
	$$(Q)$$(CC) $$(FLAGS) -Itests -I. -fsanitize=fuzzer -o $$@ $$(filter %.c,$$^) $$(HELPER_LIB) \
	  $$(filter %.o,$$^) $$(LDSAN) $$(LDOMP) $$(call libs_for,$(call room_of,fuzz_$(1))) $$(LIBS)
endef
$(foreach f,$(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ_SRC)),$(eval $(call FUZZER_RULE,$(f))))
