# cmake -DTREE=FOLDER -DTO=FILE -P versions.cmake: which versions of the package serve a program that asks for another.
foreach(case
    "0.5.3 0.5 yes" "0.5.3 0.5.3 yes" "0.5.3 0.5.4 no" "0.5.3 0.4 no" "0.5.3 1.0 no" "0.6.0 0.5 no" "0.6.0 0.6 yes"
    "0.7.1 0.6 yes" "0.7.1 0.6.9 yes" "0.7.1 0.5 no" "0.7.1 0.8 no" "0.10.0 0.9 yes" "0.10.0 0.5 no" "1.2.0 1.0 yes"
    "1.2.0 0.9 no")
  string(REPLACE " " ";" case "${case}")
  list(GET case 0 VERSION)
  list(GET case 1 PACKAGE_FIND_VERSION)
  list(GET case 2 wanted)
  string(REGEX MATCH "^([0-9]+)[.]([0-9]+)" parts "${PACKAGE_FIND_VERSION}")
  set(PACKAGE_FIND_VERSION_MAJOR ${CMAKE_MATCH_1})
  set(PACKAGE_FIND_VERSION_MINOR ${CMAKE_MATCH_2})
  configure_file("${TREE}/packaging/cmake/tvec-config-version.cmake.in" "${TO}" @ONLY)
  set(PACKAGE_VERSION_COMPATIBLE no)
  include("${TO}")
  if(PACKAGE_VERSION_COMPATIBLE AND NOT wanted OR wanted AND NOT PACKAGE_VERSION_COMPATIBLE)
    message(FATAL_ERROR "asked for ${PACKAGE_FIND_VERSION}, of ${VERSION}: ${PACKAGE_VERSION_COMPATIBLE}, not ${wanted}")
  endif()
endforeach()
