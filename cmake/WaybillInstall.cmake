# find_package(waybill) for a user's project: one static library, the public headers, the command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS waybill EXPORT waybill-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/waybill DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT waybill-targets NAMESPACE waybill:: DESTINATION
        ${CMAKE_INSTALL_LIBDIR}/cmake/waybill)
configure_package_config_file(
  cmake/waybill-config.cmake.in waybill-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/waybill)
write_basic_package_version_file(waybill-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/waybill-config.cmake
              ${PROJECT_BINARY_DIR}/waybill-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/waybill)
if(TARGET waybill-cli)
  install(TARGETS waybill-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
