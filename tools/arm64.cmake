# For CMAKE_TOOLCHAIN_FILE: builds for arm64 what qemu runs, as position-independent as a module is, with
# the libraries that tools/get-arm64-libraries has got.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

get_filename_component(libraries ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-libraries ABSOLUTE)
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${libraries}/usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${libraries})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(OPENSSL_USE_STATIC_LIBS ON)
set(CMAKE_CXX_FLAGS_INIT
    "-isystem ${libraries}/usr/include -isystem ${libraries}/usr/include/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${libraries}/usr/lib/aarch64-linux-gnu")
