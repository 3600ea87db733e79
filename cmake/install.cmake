# find_package(craton) for programs that bring their own model, against the build tree (CMAKE_PREFIX_PATH=build/release) or an
# installed prefix (cmake --install build/release --prefix DIR). Targets: craton::train and, below it, one per module.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(CRATON_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/craton)
get_property(modules GLOBAL PROPERTY CRATON_MODULES)
list(REMOVE_ITEM modules testing)
set(targets ${modules})
list(TRANSFORM targets PREPEND craton_)
foreach(module IN LISTS modules)
  set_target_properties(craton_${module} PROPERTIES EXPORT_NAME ${module})
endforeach()

install(TARGETS ${targets} EXPORT cratonTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/craton)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/craton DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT cratonTargets NAMESPACE craton:: DESTINATION ${CRATON_PACKAGE_DIR})
foreach(program craton craton-worker)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

install(TARGETS craton-grpc LIBRARY DESTINATION lib/craton)

export(EXPORT cratonTargets NAMESPACE craton:: FILE ${CMAKE_BINARY_DIR}/lib/cmake/craton/cratonTargets.cmake)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/cratonConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/lib/cmake/craton/cratonConfig.cmake
                              INSTALL_DESTINATION ${CRATON_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lib/cmake/craton/cratonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lib/cmake/craton/cratonConfig.cmake
              ${CMAKE_BINARY_DIR}/lib/cmake/craton/cratonConfigVersion.cmake DESTINATION ${CRATON_PACKAGE_DIR})
