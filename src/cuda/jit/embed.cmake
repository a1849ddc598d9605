# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C++ source that holds each of the comma-separated HEADERS, paths below ROOT, as a string.
set(text "// SPDX-License-Identifier: Apache-2.0\n// Made by embed.cmake.\n#include \"cuda/jit/headers.h\"\n
namespace flashscan::cuda {\n\nconst std::vector<Header>& embedded_headers() {
    static const std::vector<Header> list{\n")
string(REPLACE "," ";" HEADERS "${HEADERS}")
foreach(header IN LISTS HEADERS)
  file(READ ${ROOT}/${header} content)
  string(APPEND text "        {\"${header}\", R\"embedded(${content})embedded\"},\n")
endforeach()
string(APPEND text "    };\n    return list;\n}\n\n}  // namespace flashscan::cuda\n")
file(WRITE ${OUTPUT} "${text}")
