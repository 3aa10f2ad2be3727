# SPDX-License-Identifier: Apache-2.0
# Where NVIDIA's compiler is, and how every GPU kernel is compiled. NVCC= builds without images.
ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(shell command -v nvcc) $(wildcard .cuda/nvidia/*/bin/nvcc))
endif
ifeq ($(origin PTXAS),undefined)
PTXAS := $(if $(NVCC),$(dir $(NVCC))ptxas)
endif
FATBINARY ?= $(dir $(PTXAS))fatbinary
NVCC_FLAGS  := -std=c++17 -lineinfo -Werror all-warnings -Isrc/cuda
PTXAS_FLAGS := -lineinfo -warn-spills -Werror
