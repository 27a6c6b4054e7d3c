# Copies PROGRAM, LIBRARY and the shared libraries that they load to FOLDER, but those of the C and
# C++ run time: the other machine's own must be at least as new as this one's.
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${PROGRAM}
  LIBRARIES ${LIBRARY}
  RESOLVED_DEPENDENCIES_VAR loaded
  PRE_EXCLUDE_REGEXES "^(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+))\\.so")
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
foreach(file ${PROGRAM} ${LIBRARY} ${loaded})
  get_filename_component(name ${file} NAME)
  file(COPY_FILE ${file} ${FOLDER}/${name})
endforeach()
message(STATUS "GPU tests and benchmark: ${FOLDER}")
