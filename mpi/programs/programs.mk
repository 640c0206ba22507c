# For a folder with one MPI program: set NAME and SOURCES, include this.
# Builds ullage/bin/{openmpi,mpich}/NAME, for every MPI that is here.
ROOT := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))../..)
BIN ?= $(ROOT)/ullage/bin
CFLAGS ?= -O3
FLAGS := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -pedantic
MPIS := $(foreach mpi,openmpi mpich,$(if $(shell command -v mpicc.$(mpi)),$(mpi)))

.PHONY: all
all: $(foreach mpi,$(MPIS),$(BIN)/$(mpi)/$(NAME))
	@test -n "$(MPIS)" || { echo 'hint: apt-get install libopenmpi-dev libmpich-dev' >&2; exit 1; }

$(BIN)/%/$(NAME): $(SOURCES) $(wildcard *.h) Makefile ../programs.mk ../give_up.h
	@mkdir -p $(@D)
	mpicc.$* $(FLAGS) $(CFLAGS) $(SOURCES) -o $@ $(LIBS)
