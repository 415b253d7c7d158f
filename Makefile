# foretoken - GNU make is the official build. `make help` lists what there is.
#
# Outputs go to build/$(CONFIG)/; a room of src/ is compiled file by file and linked with the
# rooms that it may call, so a call that goes upward fails to link.

CROSS   ?=
ifeq ($(origin CC),default)
  CC := $(CROSS)$(if $(CROSS),gcc,cc)
endif
CXX     ?= g++
CONFIG  ?= release
B       := build/$(CONFIG)
SAN     ?=
OPENMP  ?= 1
WERROR  ?= $(if $(CI),1,0)
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
ARCH    := $(shell $(CC) -dumpmachine | cut -d- -f1)

WARN := -Wall -Wextra -Wshadow -Wundef -Wvla -Wformat=2 -Wpointer-arith -Wcast-qual -Wwrite-strings \
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wredundant-decls \
  -Wdouble-promotion -Wimplicit-fallthrough -Wswitch-enum -Wconversion -Wno-sign-conversion
FLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -g -fvisibility=hidden -fPIC \
  -ffp-contract=off -fno-math-errno -Iinclude -Isrc $(WARN) $(if $(filter 1,$(WERROR)),-Werror)
# Line editing in `foretoken chat`, where the library is there.
ifndef LIBEDIT
  LIBEDIT := $(shell echo '\#include <histedit.h>' | $(CC) -E - >/dev/null 2>&1 && echo 1 || echo 0)
endif
LIBS  := $(LDFLAGS) -lpcre2-8 -lutf8proc -ljansson -lxxhash -lm -pthread

ifneq ($(SAN),)
  CONFIG := san-$(subst $(comma),-,$(SAN))
  comma  := ,
  B      := build/san-$(subst $(comma),-,$(SAN))
  FLAGS  += -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -DFT_DEBUG
  LDSAN  := -fsanitize=$(SAN)
endif
ifeq ($(DEBUG),1)
  FLAGS += -DFT_DEBUG
endif
ifeq ($(OPENMP),1)
  FLAGS += -fopenmp
  LDOMP := -fopenmp
else
  FLAGS += -Wno-unknown-pragmas
endif
FLAGS += $(CFLAGS)

ROOMS := base gguf text model kern backend layer state sample draft convert engine

# What a room may be linked with: itself and the rooms below it (docs/architecture.md).
DEPS_base    := base
DEPS_gguf    := base gguf
DEPS_text    := base gguf text
DEPS_kern    := base kern
DEPS_model   := base gguf kern model
DEPS_backend := base kern backend
DEPS_state   := base kern backend state
DEPS_layer   := base gguf model kern backend state layer
DEPS_sample  := base sample
DEPS_draft   := base gguf model kern backend state layer draft
DEPS_convert := base gguf text kern convert
DEPS_engine  := $(ROOMS)
DEPS_tests   := $(ROOMS)

src_of = $(sort $(wildcard src/$(1)/*.c) $(wildcard src/$(1)/ref/*.c) $(wildcard src/$(1)/cpu/*.c) \
  $(if $(filter x86_64,$(ARCH)),$(wildcard src/$(1)/x86/*.c)) \
  $(if $(filter aarch64,$(ARCH)),$(wildcard src/$(1)/arm/*.c)))
obj_of = $(patsubst %.c,$(B)/obj/%.o,$(call src_of,$(1)))
objs_for = $(foreach r,$(DEPS_$(1)),$(call obj_of,$(r)))

LIB_OBJ := $(foreach r,$(ROOMS),$(call obj_of,$(r)))
CLI_SRC := $(sort $(wildcard cli/*.c))
CLI_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(CLI_SRC))

TEST_SRC := $(sort $(wildcard tests/unit/test_*.c) $(wildcard tests/kern/test_*.c))
TESTS    := $(patsubst %.c,$(B)/%,$(TEST_SRC))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
REPLAYS  := $(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/replay_%,$(FUZZ_SRC))
FUZZERS  := $(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/fuzz_%,$(FUZZ_SRC))
HELPERS  := $(sort $(wildcard tests/support/*.c))
HELPER_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(HELPERS))
# An archive, so that a test takes only the helpers whose rooms it is linked with.
HELPER_LIB := $(if $(HELPERS),$(B)/tests/libsupport.a)

EXAMPLES := $(patsubst %.c,$(B)/%,$(sort $(wildcard examples/*.c)))
CXX_TEST := $(B)/tests/cxx/public
LONG     := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/long/*.c)))

.DEFAULT_GOAL := all
.PHONY: all lib cli examples tests
all: lib cli
lib: $(B)/libforetoken.a $(B)/libforetoken.so
cli: $(B)/foretoken
examples: $(EXAMPLES)
tests: $(TESTS) $(REPLAYS) $(EXAMPLES) $(CXX_TEST) $(LONG)

# The instruction set of a kernel file is in its name; nothing else is built with more than the
# baseline of the processor family.
$(B)/obj/%_avx2.o: ISA := -mavx2 -mfma -mf16c
$(B)/obj/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c
$(B)/obj/%_neon.o: ISA := -march=armv8.2-a+dotprod+fp16
$(B)/obj/%_i8mm.o: ISA := -march=armv8.2-a+dotprod+fp16+i8mm

$(B)/obj/tests/%.o: ISA := -Itests
$(B)/obj/cli/chat_edit.o: ISA := -DFT_LIBEDIT=$(LIBEDIT)

# A change of flags rebuilds everything.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(LIBEDIT)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LIBEDIT)' > $@
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CC    $<')
	$(Q)$(CC) $(FLAGS) $(ISA) -MMD -MP -c -o $@ $<

# The static library shows ft_ names only: one relocatable object whose hidden symbols are local.
$(B)/libforetoken.a: $(LIB_OBJ)
	$(if $(Q),@echo '  AR    $@')
	$(Q)$(CROSS)ld -r -o $(B)/foretoken.o $^
	$(Q)$(CROSS)objcopy --localize-hidden $(B)/foretoken.o
	$(Q)rm -f $@ && $(CROSS)ar rcs $@ $(B)/foretoken.o

$(B)/libforetoken.so: $(LIB_OBJ)
	$(if $(Q),@echo '  LD    $@')
	$(Q)$(CC) -shared -Wl,-soname,libforetoken.so.0 -Wl,--no-undefined $(LDSAN) $(LDOMP) -o $@ $^ $(LIBS)

# The command uses the public header, and base for buffers and files.
$(B)/foretoken: $(CLI_OBJ) $(call obj_of,base) $(B)/libforetoken.a
	$(if $(Q),@echo '  LD    $@')
	$(Q)$(CC) $(LDSAN) $(LDOMP) -o $@ $(CLI_OBJ) $(call obj_of,base) $(B)/libforetoken.a \
	  $(if $(filter 1,$(LIBEDIT)),-ledit) $(LIBS)

# Programs of others: the public header and the archive are all that they see.
$(B)/examples/%: examples/%.c $(B)/libforetoken.a include/foretoken/foretoken.h
	@mkdir -p $(@D)
	$(if $(Q),@echo '  LD    $@')
	$(Q)$(CC) -std=c11 -O2 -g $(WARN) $(if $(filter 1,$(WERROR)),-Werror) -Iinclude -o $@ $< \
	  $(B)/libforetoken.a $(LDSAN) $(LDOMP) $(LIBS)

# The linker is that of CC, whose runtimes (OpenMP, sanitizers) the archive needs.
$(CXX_TEST): tests/cxx/public.cpp $(B)/libforetoken.a include/foretoken/foretoken.h
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CXX   $<')
	$(Q)$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Werror -pedantic -Iinclude -c -o $@.o $<
	$(Q)$(CC) -o $@ $@.o $(B)/libforetoken.a $(LDSAN) $(LDOMP) -lstdc++ $(LIBS)

$(B)/tests/libsupport.a: $(HELPER_OBJ)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  AR    $@')
	$(Q)rm -f $@ && $(CROSS)ar rcs $@ $^

room_of = $(firstword $(subst _, ,$(patsubst test_%,%,$(patsubst fuzz_%,%,$(basename $(notdir $(1)))))))

# test_<room>[_topic].c is linked with that room and those below it.
define TEST_RULE
$(B)/tests/$(1)/$(2): tests/$(1)/$(2).c $$(call objs_for,$(call room_of,$(2))) $$(HELPER_LIB) $(B)/flags
	@mkdir -p $$(@D)
	$$(if $$(Q),@echo '  TEST  $$<')
	$$(Q)$$(CC) $$(FLAGS) -Itests -MMD -MP -MF $$@.d -o $$@ $$< $$(HELPER_LIB) $$(call objs_for,$(call room_of,$(2))) \
	  $$(LDSAN) $$(LDOMP) -lcmocka $$(LIBS)
endef
$(foreach t,$(TEST_SRC),$(eval $(call TEST_RULE,$(notdir $(patsubst %/,%,$(dir $(t)))),$(basename $(notdir $(t))))))

# A fuzz target runs twice: its corpus replayed by a plain main in `make check`, libFuzzer in
# `make fuzz` (clang).
define FUZZ_RULE
$(B)/tests/fuzz/replay_$(1): tests/fuzz/fuzz_$(1).c tests/fuzz/replay_main.c $$(call objs_for,$(call room_of,fuzz_$(1))) $(B)/flags
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(FLAGS) -Itests -o $$@ $$(filter %.c %.o,$$^) $$(LDSAN) $$(LDOMP) $$(LIBS)
endef
$(foreach f,$(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ_SRC)),$(eval $(call FUZZ_RULE,$(f))))

# Programs that tests/long/*.sh run.
$(B)/tests/long/%: tests/long/%.c $(HELPER_LIB) $(LIB_OBJ) $(B)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo '  TEST  $<')
	$(Q)$(CC) $(FLAGS) -Itests -MMD -MP -MF $@.d -o $@ $< $(HELPER_LIB) $(LIB_OBJ) $(LDSAN) $(LDOMP) $(LIBS)

# Development tests that need files the repository does not hold (tests/dev/README.md).
.PHONY: trained
trained: $(B)/tests/dev/trained
	$(B)/tests/dev/trained $(SAMPLE) $(VECTORS)
$(B)/tests/dev/%: tests/dev/%.c $(HELPER_LIB) $(LIB_OBJ) $(B)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -Itests -o $@ $< $(HELPER_LIB) $(LIB_OBJ) $(LDSAN) $(LDOMP) $(LIBS)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
-include tools/check.mk

.PHONY: clean help FORCE
clean:
	rm -rf build
help:
	@echo 'make              the library and the command, under build/release/'
	@echo 'make examples     the programs of examples/, which use the library as yours would'
	@echo 'make demo         installs what is missing, builds, writes a paragraph with the bundled model'
	@echo 'make check        builds and runs the tests (a few minutes)'
	@echo 'make check-long   sanitizers, fuzzers, long runs'
	@echo 'make check-arm    tests built for aarch64, on an emulator'
	@echo 'make fuzz         every fuzz target for FUZZ_SECONDS (60) seconds'
	@echo 'make deps         installs the Debian packages of tools/packages.txt'
	@echo 'make clean        removes build/'
	@echo 'Variables: CC=clang, SAN=address,undefined, DEBUG=1, OPENMP=0, LIBEDIT=0, WERROR=1, V=1, CONFIG=name,'
	@echo '           CROSS=aarch64-linux-gnu- with CFLAGS, LDFLAGS for its libraries'
