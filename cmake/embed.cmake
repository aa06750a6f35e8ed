# Writes OUTPUT, the source of a header that declares WebFiles() in a namespace of swarm, from FILES of FOLDER:
# cmake -DFOLDER=... -DFILES=a,b/c -DHEADER=worker/page/files.h -DNAMESPACE=page -DOUTPUT=... -P cmake/embed.cmake
# In a document, head.html takes the place of the line that names it: what all documents have in their heads.
string(REPLACE "," ";" FILES "${FILES}")
string(HEX "<!-- head.html -->\n" mark)
file(READ "${FOLDER}/head.html" head HEX)
string(REPEAT "[0-9a-f]" 64 line)
set(rows "")
foreach(file ${FILES})
  file(READ "${FOLDER}/${file}" hex HEX)
  string(REPLACE "${mark}" "${head}" hex "${hex}")
  string(LENGTH "${hex}" length)
  math(EXPR bytes "${length} / 2")
  string(REGEX REPLACE "(${line})" "\\1\"\n     \"" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" hex "${hex}")
  string(APPEND rows "    {\"/${file}\",\n     {\"${hex}\", ${bytes}}},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"\n
namespace swarm::${NAMESPACE} {
namespace {
constexpr web::PageFile kFiles[] = {
${rows}};
}  // namespace
std::span<const web::PageFile> WebFiles() { return kFiles; }
}  // namespace swarm::${NAMESPACE}\n")
