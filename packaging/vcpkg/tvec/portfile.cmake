# An overlay port: vcpkg install tvec --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(uring disabled)
if("uring" IN_LIST FEATURES)
  set(uring enabled)
endif()

vcpkg_configure_meson(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -During=${uring} -Dtests=disabled -Dexamples=disabled -Dbench=disabled)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tvec)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
