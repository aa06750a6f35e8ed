# Writes OUTPUT, the source of worker/page/files.h, from FILES of FOLDER:
# cmake -DFOLDER=... -DFILES=a,b/c -DOUTPUT=... -P cmake/embed.cmake
string(REPLACE "," ";" FILES "${FILES}")
string(REPEAT "[0-9a-f]" 64 line)
set(rows "")
foreach(file ${FILES})
  file(READ "${FOLDER}/${file}" hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR bytes "${length} / 2")
  string(REGEX REPLACE "(${line})" "\\1\"\n     \"" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" hex "${hex}")
  string(APPEND rows "    {\"/${file}\",\n     {\"${hex}\", ${bytes}}},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"worker/page/files.h\"\n
namespace swarm::page {
namespace {
constexpr WebFile kFiles[] = {
${rows}};
}  // namespace
std::span<const WebFile> WebFiles() { return kFiles; }
}  // namespace swarm::page\n")
