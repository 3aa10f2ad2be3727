# SPDX-License-Identifier: Apache-2.0
# find_package(gqa) gives gqa::gqa, the shared library, and gqa::static.
get_filename_component(_gqa_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_gqa_include "${_gqa_lib}/../include" ABSOLUTE)

if(NOT TARGET gqa::gqa)
  add_library(gqa::gqa SHARED IMPORTED)
  set_target_properties(gqa::gqa PROPERTIES
    IMPORTED_LOCATION "${_gqa_lib}/libgqa.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_gqa_include}")
  add_library(gqa::static STATIC IMPORTED)
  set_target_properties(gqa::static PROPERTIES
    IMPORTED_LOCATION "${_gqa_lib}/libgqa.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_gqa_include}"
    INTERFACE_LINK_LIBRARIES "m;pthread;dl")
endif()
