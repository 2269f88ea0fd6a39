# Run on every build: writes OUTPUT from TEMPLATE, touching it only when something has changed.
# Takes SOURCE_DIR, TEMPLATE, OUTPUT, REFIT_COMPILER and REFIT_BUILD_TYPE.
set(REFIT_GIT_COMMIT std::nullopt)
set(REFIT_GIT_DIRTY std::nullopt)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
  if(result EQUAL 0)
    set(REFIT_GIT_COMMIT "\"${commit}\"")
    # Without the locks that `git status` takes to refresh its index.
    execute_process(COMMAND ${GIT} --no-optional-locks -C ${SOURCE_DIR} status --porcelain
                    OUTPUT_VARIABLE changes RESULT_VARIABLE result ERROR_QUIET)
    if(result EQUAL 0)
      set(REFIT_GIT_DIRTY false)
      if(changes)
        set(REFIT_GIT_DIRTY true)
      endif()
    endif()
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
